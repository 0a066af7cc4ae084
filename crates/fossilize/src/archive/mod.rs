//! The container of Fossilize: entries by tag and hash.
