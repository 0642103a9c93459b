"""Generates the stubs from the repository's .proto files. `./check generate` runs this program.

The version of grpcio-tools in generate.txt determines the minimum versions of grpcio and protobuf for users.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto" / "proto"


def generate(package: Path) -> None:
    """Writes the stubs to a directory."""
    with tempfile.TemporaryDirectory() as scratch:
        files = sorted(str(path.relative_to(PROTO)) for path in (PROTO / "kent/v1").glob("*.proto"))
        include = [f"-I{PROTO}", f"-I{Path(protoc.__file__).parent / '_proto'}"]
        outputs = [f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", *include, *outputs, *files]):
            sys.exit("protoc failed")
        package.mkdir(parents=True, exist_ok=True)
        for made in (Path(scratch) / "kent/v1").iterdir():
            shutil.copy(made, package)
        (package / "__init__.py").write_text('"""The generated messages and stubs of Kent\'s protocol."""\n')


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
