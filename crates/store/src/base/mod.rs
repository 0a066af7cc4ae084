//! What all other modules may use.
//!
//! | file | what it knows |
//! |---|---|
//! | `descriptor` | descriptors that a program may close |
//! | `held` | what a thread has while others may wait for it |
//! | `keyed` | the hasher of maps whose keys come from files |
//! | `memory` | allocations that may fail, and their budgets |
//! | `program` | which file a process runs |
//! | `signals` | writes that raise no signal |
//! | `sharded` | counters that threads add to without queueing |
//! | `sort` | sorting that adds little to the library |
//! | `once` | what is made once, also where a process forks meanwhile |
//! | `owner` | files that root creates in a user's folder |
//! | `parallel` | the same work on many things |
//! | `sync` | the only locks of the library |
//! | `text` | which characters are not printed as they are; hexadecimal digits |
//! | `thread` | starting threads |
//! | `timer` | how long a thread of the program may wait |
//! | `unwinding` | threads that end inside the library |
//! | `util` | random names, the time |

pub mod descriptor;
pub mod held;
pub(crate) mod keyed;
pub mod memory;
pub mod once;
pub mod owner;
pub mod parallel;
pub mod program;
pub mod sharded;
pub mod signals;
pub mod sort;
pub mod sync;
pub mod text;
pub mod thread;
pub(crate) mod timer;
pub mod unwinding;
pub mod util;
