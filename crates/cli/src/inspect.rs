//! stub
use crate::args::InspectArgs;
use crate::bits::*;
use crate::failure::Failure;
use crate::output::Out;
pub(crate) fn run(args: &InspectArgs, out: &mut Out) -> Result<(), Failure> {
    let _ = args.ids.len();
    let _ = draw(&[Run { label: "", bits: "" }], out.palette());
    Ok(())
}
