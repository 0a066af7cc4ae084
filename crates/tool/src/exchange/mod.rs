//! Stashes that leave this machine, and come to it: archives (docs/format.md, "Archives"). Of the command-line tool alone;
//! none of it is linked into the layer.
//!
//! | file | what it knows |
//! |---|---|
//! | `export` | which files of a stash make an archive |
//! | `import` | what of an archive is taken, and where it goes |
//! | `entry` | what a file in an archive is called |

mod entry;
pub mod export;
pub mod import;

#[cfg(test)]
mod tests;
