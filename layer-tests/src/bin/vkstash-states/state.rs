//! The states in which pipelines can differ.

use clap::ValueEnum;

/// The state in which the pipelines differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// The static viewport.
    Viewport,
    /// The static scissor.
    Scissor,
    /// The static depth bias.
    DepthBias,
    /// The static blend constants.
    BlendConstants,
    /// The static stencil reference.
    Stencil,
    /// All of these in turn.
    Mixed,
    /// One of ten colour formats, and the static viewport: a driver compiles ten times.
    Formats,
    /// One of ten formats and the viewport, in another order in each run, so that other pipelines come first.
    Shuffled,
    /// One of fourteen vertex and one of fourteen fragment shaders.
    Shaders,
}
