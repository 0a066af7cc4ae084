//! Why a document was not read or not written.

use ash::vk;
use thiserror::Error;
use vkstash_model::structures;

/// Why a document was refused, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct ParseError {
    /// Names of members and indices, from the outermost to the one that was refused, each behind a `/`.
    pub path: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The text is not JSON, or nested too deep.
    #[error("not JSON: {0}")]
    Syntax(String),
    /// The text is longer than [`MOST_TEXT`](super::read::MOST_TEXT).
    #[error("{0} bytes of JSON, more than any object needs")]
    TooLong(usize),
    /// A version of the format that Fossilize's replayer refuses, too.
    #[error("version {0} of the format; 5 and 6 are known")]
    Version(u32),
    /// A required member is missing.
    #[error("missing")]
    MissingMember,
    /// A member that the structure does not have. Leaving it out could make another pipeline of it.
    #[error("an unknown member")]
    UnknownMember,
    /// A member that stands in its object twice.
    #[error("there twice")]
    RepeatedMember,
    /// The value is of another kind.
    #[error("not {0}")]
    Kind(&'static str),
    /// The number does not fit its type, or is larger than any use of it.
    #[error("out of range")]
    Range,
    /// An array that is not as long as its count says.
    #[error("{found} elements instead of {expected}")]
    Length {
        /// How many elements the array has.
        found: u64,
        /// How many follow from other members.
        expected: u64,
    },
    /// A structure in a pNext chain that is not known.
    #[error("{} in a chain is unknown", structures::name(vk::StructureType::from_raw(*.0)))]
    Structure(i32),
    /// A mapping's source that is not known.
    #[error("an unknown source of descriptors, {0}")]
    Source(u32),
    /// The base64 text or the packed SPIR-V is malformed.
    #[error("malformed {0}")]
    Encoding(&'static str),
}

impl ParseError {
    /// A problem of the value itself.
    pub fn new(problem: Problem) -> Self {
        ParseError { path: String::new(), problem }
    }

    /// The same, seen from the structure or array that the value belongs to.
    pub fn inside(mut self, name: &str) -> Self {
        self.path.insert_str(0, name);
        self.path.insert(0, '/');
        self
    }
}

/// Why a create info has no JSON.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Fossilize has no form for this structure of a pNext chain.
    #[error("Fossilize has no form for {}", structures::name(*.0))]
    Structure(vk::StructureType),
    /// JSON has no such number.
    #[error("a number is infinite or NaN, which JSON cannot hold")]
    NotFinite,
    /// An array or a string is NULL and must not be.
    #[error("{0} is NULL")]
    Null(&'static str),
    /// A name is not UTF-8.
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    /// A count is larger than any use of it.
    #[error("{0} has more elements than any use of it")]
    TooLong(&'static str),
    /// The structure has a member that Fossilize leaves out.
    #[error("Fossilize has no form for {0}")]
    Member(&'static str),
    /// A mapping's source that is not known.
    #[error("an unknown source of descriptors, {0}")]
    Source(i32),
    /// The size of the code is no multiple of four.
    #[error("{0} bytes of SPIR-V are no whole number of words")]
    CodeSize(usize),
}
