"""Tests the blocking client in servers that fork their workers, and in the libraries that the README names."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import celery
import pytest
import sqlalchemy
from conftest import free_port
from sqlalchemy import orm

import kent

README = (Path(__file__).parent.parent / "README.md").read_text()

#: A module with a client that is used before the workers are forked. Most of its block is still left at the fork.
MODULE = """
import json
import os
import time

import kent

client = kent.Client(os.environ["KENT_ENDPOINT"])
sources = (client.uuid_v7(), client.region("orders"), client.xid())
before = [str(source.next()) for source in sources for _ in range(10)]

def taken():
    ids = [str(source.next()) for source in sources for _ in range(20)]
    return {"process": os.getpid(), "before": before, "ids": ids}
"""

GUNICORN = """
def app(environ, start_response):
    time.sleep(0.02)  # so that other workers take the next requests
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(taken()).encode()]
"""

CELERY = """
from celery import Celery

app = Celery("service")
app.config_from_object(json.loads(os.environ["CELERY"]))

@app.task(name="taken")
def task():
    time.sleep(0.02)
    return taken()
"""


class Process(subprocess.Popen):
    """A program that runs the module `service`, which it finds in a directory. It ends with the test."""

    def __init__(self, directory, module, daemon, arguments, **environment):
        (directory / "service.py").write_text(MODULE + module)
        self.log = directory / "service.log"
        environment |= {"KENT_ENDPOINT": daemon.address, "PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}
        with self.log.open("w") as log:
            arguments = [sys.executable, "-m", *arguments]
            super().__init__(arguments, env=os.environ | environment, cwd=directory, stdout=log, stderr=log)

    def __exit__(self, *_):
        self.terminate()
        try:
            self.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()


def check(answers):
    """Checks that no identifier is returned twice, neither by two workers nor by a worker and its parent."""
    everything = answers[0]["before"] + [one for answer in answers for one in answer["ids"]]
    assert len(everything) == 30 + 60 * len(answers)
    assert len(set(everything)) == len(everything)
    assert len({answer["process"] for answer in answers}) >= 3
    assert all(answer["before"] == answers[0]["before"] for answer in answers)


def test_ok_workers_of_gunicorn_take_other_identifiers_than_their_parent(daemon, tmp_path):
    daemon.kent("region", "create", "orders", "--suffix", "40")
    address = f"127.0.0.1:{free_port()}"
    arguments = [
        "gunicorn",
        "--preload",
        "--workers",
        "4",
        "--bind",
        address,
        "--worker-tmp-dir",
        tmp_path,
        "service:app",
    ]
    with Process(tmp_path, GUNICORN, daemon, arguments) as server:
        answers = []
        until = time.monotonic() + 60
        while len({answer["process"] for answer in answers}) < 3 or len(answers) < 60:
            assert server.poll() is None and time.monotonic() < until, server.log.read_text()
            try:
                with urllib.request.urlopen(f"http://{address}/", timeout=30) as reply:
                    answers.append(json.load(reply))
            except urllib.error.URLError as error:
                # gunicorn does not listen yet.
                assert isinstance(error.reason, ConnectionRefusedError), server.log.read_text()
                time.sleep(0.05)
    check(answers)


def test_ok_workers_of_celery_take_other_identifiers_than_their_parent(daemon, tmp_path):
    daemon.kent("region", "create", "orders", "--suffix", "40")
    queue, results, control = (tmp_path / name for name in ("queue", "results", "control"))
    for path in (queue, results, control):
        path.mkdir()
    settings = {
        "broker_url": "filesystem://",
        "broker_transport_options": {
            "data_folder_in": str(queue),
            "data_folder_out": str(queue),
            "control_folder": str(control),
            "polling_interval": 0.05,
        },
        "result_backend": results.as_uri(),
        "worker_prefetch_multiplier": 1,
    }
    arguments = ["celery", "--app", "service", "worker", "--pool", "prefork", "--concurrency", "4"]
    with Process(tmp_path, CELERY, daemon, arguments, CELERY=json.dumps(settings)) as worker:
        app = celery.Celery("service")
        app.config_from_object(settings)
        sent = [app.send_task("taken") for _ in range(60)]
        try:
            answers = [one.get(timeout=60) for one in sent]
        except celery.exceptions.TimeoutError:
            pytest.fail(worker.log.read_text())
    check(answers)


def line(of):
    """The field of a model, as shown in the README."""
    return re.search(rf"`(id = {of}.*?)`", README, re.DOTALL)[1].replace("\n", " ")


def test_ok_the_default_of_a_sqlalchemy_column(daemon):
    with kent.Client(daemon.address) as client:
        names = {"events": client.uuid_v7(), "Base": orm.declarative_base()}
        names |= {"mapped_column": orm.mapped_column, "Uuid": sqlalchemy.Uuid}
        exec(f"class Event(Base):\n    __tablename__ = 'events'\n    {line('mapped_column')}", names)
        engine = sqlalchemy.create_engine("sqlite://")
        names["Base"].metadata.create_all(engine)
        with orm.Session(engine) as session:
            session.add_all(names["Event"]() for _ in range(3))
            session.commit()
            found = session.scalars(sqlalchemy.select(names["Event"].id)).all()
        engine.dispose()
    assert len(set(found)) == 3 and all(isinstance(one, uuid.UUID) and one.version == 7 for one in found)


DJANGO = """
import django
from django.conf import settings
from django.core.management import call_command

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(INSTALLED_APPS=["shop"], DATABASES={"default": database})
django.setup()
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
from shop.models import Event

made = [Event.objects.create().id for _ in range(3)]
assert sorted(Event.objects.values_list("id", flat=True)) == sorted(set(made)) and len(set(made)) == 3
assert all(one.version == 7 for one in made)
with open("shop/migrations/0001_initial.py") as migration:
    assert "default=shop.models.new_id" in migration.read()
"""

DJANGO_MODELS = f"""
import os

import kent
from django.db import models

events = kent.Client(os.environ["KENT_ENDPOINT"]).uuid_v7()

def new_id():
    return events.next()

class Event(models.Model):
    {line("models")}
"""


def test_ok_the_default_of_a_django_field(daemon, tmp_path):
    for name, text in (("shop/models.py", DJANGO_MODELS), ("shop/migrations/__init__.py", ""), ("run.py", DJANGO)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {"KENT_ENDPOINT": daemon.address, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "run.py"]
    done = subprocess.run(program, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
