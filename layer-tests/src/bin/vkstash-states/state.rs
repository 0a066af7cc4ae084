//! What pipelines can differ in.

use clap::ValueEnum;

/// What the pipelines differ in.
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
    /// All of these in turns.
    Mixed,
    /// One of ten colour formats, and the static viewport: a driver compiles ten times.
    Formats,
    /// One of ten formats and the viewport, each run in another order: what comes first is not what came first.
    Shuffled,
    /// One of fourteen vertex and one of fourteen fragment shaders.
    Shaders,
}
