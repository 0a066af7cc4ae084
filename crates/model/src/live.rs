//! The live page of a process (docs/format.md): where its numbers stand, and what a reader makes of its bytes.

use std::ops::Range;

use ash::vk;

use crate::counters::Count;

/// The name that the file was created with.
pub const NAME: &str = "vkstash-live";
/// What a link in `/proc/PID/fd` to it says.
pub const LINK: &str = "/memfd:vkstash-live (deleted)";
/// The first number of a page that is whole.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"vkstlive");
/// The version of the layout.
pub const VERSION: u64 = 1;
/// Bytes of the page.
pub const SIZE: usize = 8192;

/// Bytes of a number.
const NUMBER: usize = size_of::<u64>();

/// Where the numbers of the header stand, counted in numbers. The first four do so in every version.
pub mod header {
    /// [`super::MAGIC`], written last.
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// [`super::SIZE`].
    pub const SIZE: usize = 2;
    /// The process, as it knows itself: in a container this is another number than outside.
    pub const PID: usize = 3;
    /// When the page was made, in milliseconds since the beginning of 1970.
    pub const UNIX_MS: usize = 4;
    /// The same moment in nanoseconds of CLOCK_MONOTONIC.
    pub const MONOTONIC_NS: usize = 5;
    /// Workers that exist.
    pub const WORKERS: usize = 16;
    /// 1: workers leave the processors to other threads now.
    pub const PAUSED: usize = 17;
    /// Records that the writer has written.
    pub const WRITTEN_RECORDS: usize = 18;
    /// Bytes that the writer has written.
    pub const WRITTEN_BYTES: usize = 19;
    /// The application's name: its length, and then its bytes.
    pub const APPLICATION: usize = 32;
    /// Bytes of the name at most.
    pub const APPLICATION_BYTES: usize = 248;
    /// The folder of the application in the stash: its length, and then its bytes.
    pub const FOLDER: usize = 64;
    /// Bytes of the folder at most.
    pub const FOLDER_BYTES: usize = 1528;
}

/// Where the counters begin, counted in numbers.
pub const COUNTERS: usize = 256;
/// Threads that count at the same time write to different stripes.
pub const STRIPES: usize = 16;
/// Numbers of a stripe, two cache lines.
pub const STRIPE: usize = 16;

/// What each stripe counts, in the order of its numbers.
pub const COUNTED: [Count; STRIPE] = [
    Count::Served,
    Count::Parked,
    Count::Offered,
    Count::DriverHad,
    Count::DriverHadOnDisk,
    Count::CompanionHad,
    Count::Compiled,
    Count::CompiledUnrecorded,
    Count::NothingToCompile,
    Count::CompileRequired,
    Count::Failed,
    Count::Bypassed,
    Count::ParkedUnasked,
    Count::RecordedByWorkers,
    Count::Dropped,
    Count::CompileNanos,
];

/// Where each counter stands in a stripe, by its number. [`STRIPE`]: the page does not have it.
const PLACES: [u8; Count::ALL.len()] = {
    let mut places = [STRIPE as u8; Count::ALL.len()];
    let mut at = 0;
    while at < STRIPE {
        places[COUNTED[at] as usize] = at as u8;
        at += 1;
    }
    places
};

/// Where this counter stands in a stripe. None: the page does not have it.
#[inline]
pub fn place(what: Count) -> Option<usize> {
    let at = PLACES[what as usize] as usize;
    (at < STRIPE).then_some(at)
}

/// Where the calls in flight begin, counted in numbers.
pub const CALLS: usize = 512;
/// Calls that are shown at a time.
pub const MOST_CALLS: usize = 32;
/// Numbers of a call, two cache lines.
pub const CALL: usize = 16;

/// Where the numbers of a call stand.
pub mod call {
    /// A multiple of [`NEXT`], which grows with each call, and a state.
    pub const SEQUENCE: usize = 0;
    /// The state of a place without a call.
    pub const FREE: u64 = 0;
    /// The state while the numbers of a new call are written.
    pub const WRITING: u64 = 1;
    /// The state of a place with a call.
    pub const IN_FLIGHT: u64 = 2;
    /// What the next call of the place adds.
    pub const NEXT: u64 = 4;
    /// The thread of the call, as the process numbers it.
    pub const THREAD: usize = 1;
    /// When the call began, in nanoseconds of CLOCK_MONOTONIC.
    pub const STARTED: usize = 2;
    /// 0: a thread of the program, 1: a worker.
    pub const WORKER: usize = 3;
    /// The first 8 bytes of the pipeline's key, the first one highest. 0: not known.
    pub const KEY: usize = 4;
    /// VkShaderStageFlags. 0: not known.
    pub const STAGES: usize = 5;
    /// [`super::Activity`].
    pub const ACTIVITY: usize = 6;
}

macro_rules! activities {
    ($($(#[$doc:meta])* $variant:ident => $number:literal, $name:literal, $words:literal;)*) => {
        /// What is being done for a pipeline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Activity { $($(#[$doc])* $variant = $number,)* }

        impl Activity {
            /// Every activity.
            pub const ALL: &'static [Activity] = &[$(Activity::$variant,)*];

            /// Its stable name in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Activity::$variant => $name,)* }
            }

            /// What people read.
            pub const fn words(self) -> &'static str {
                match self { $(Activity::$variant => $words,)* }
            }

            /// From its number in a page. None: a newer layer's.
            pub fn of(number: u64) -> Option<Activity> {
                Activity::ALL.iter().copied().find(|activity| *activity as u64 == number)
            }
        }
    };
}

activities! {
    /// The create info is described, and its key made.
    Capture => 1, "capture", "capturing";
    /// A pipeline that was made ahead is taken, or waited for.
    Parked => 2, "parked", "taking what was made ahead";
    /// The driver's caches are asked, without compiling.
    Driver => 3, "driver", "asking the driver's cache";
    /// The pipeline is made from its artifact, without compiling.
    Stash => 4, "stash", "reading the stash";
    /// A cache of the layer's is asked, without compiling.
    Companion => 5, "companion", "asking a companion";
    /// The driver compiles.
    Compile => 6, "compile", "compiling";
    /// The program's own call, which may compile.
    Own => 7, "own_call", "in the driver";
    /// A link of the program's libraries, which compiles nothing.
    Link => 8, "link", "linking";
    /// A worker makes the pipeline before the program asks for it.
    Ahead => 9, "ahead", "making ahead";
    /// A worker records what the driver had.
    Record => 10, "record", "recording";
}

/// Why a page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// The process is about to write it.
    #[error("the page is not whole yet")]
    Empty,
    /// Something else has the name.
    #[error("it is no live page")]
    Other,
    /// Another version of the layer has made it.
    #[error("its page has version {0}, and this program reads version {VERSION}")]
    Version(u64),
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// [`header::PID`].
    pub pid: u64,
    /// [`header::UNIX_MS`].
    pub unix_ms: u64,
    /// [`header::MONOTONIC_NS`].
    pub monotonic_ns: u64,
    /// The application's name.
    pub application: String,
    /// The folder of the application in the stash; empty: there is none.
    pub folder: String,
    /// [`header::WORKERS`].
    pub workers: u64,
    /// [`header::PAUSED`].
    pub is_paused: bool,
    /// [`header::WRITTEN_RECORDS`].
    pub written_records: u64,
    /// [`header::WRITTEN_BYTES`].
    pub written_bytes: u64,
    /// The sums of [`COUNTED`].
    pub counters: [u64; STRIPE],
    /// The calls in flight, the longest first.
    pub calls: Vec<LiveCall>,
    /// The key, as [`LiveCall::key`], that a thread of the program asked for last, whether that call has ended or not.
    pub latest_key: Option<u64>,
}

/// A call in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveCall {
    /// [`call::THREAD`].
    pub thread: u64,
    /// [`call::STARTED`].
    pub started: u64,
    /// [`call::WORKER`].
    pub is_worker: bool,
    /// [`call::KEY`].
    pub key: Option<u64>,
    /// [`call::STAGES`].
    pub stages: vk::ShaderStageFlags,
    /// [`call::ACTIVITY`]. None: one that a newer layer has.
    pub activity: Option<Activity>,
}

/// The key's first 8 bytes as a page has them.
#[inline]
pub fn key_number(key: &[u8; 32]) -> u64 {
    let mut first = [0; NUMBER];
    first.copy_from_slice(&key[..NUMBER]);
    u64::from_be_bytes(first)
}

/// One number of a page. 0 where the page ends before.
fn number(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at * NUMBER..(at + 1) * NUMBER).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Text whose length stands at `at`, before its bytes.
fn text(page: &[u8], at: usize, most: usize) -> String {
    let length = usize::try_from(number(page, at)).unwrap_or(most).min(most);
    let from = (at + 1) * NUMBER;
    let bytes: Range<usize> = from..from + length;
    String::from_utf8_lossy(page.get(bytes).unwrap_or_default()).into_owned()
}

/// The process that has made a page, as it numbers itself, whatever the version. None: it is no page.
pub fn pid(page: &[u8]) -> Option<u64> {
    (number(page, header::MAGIC) == MAGIC).then(|| number(page, header::PID))
}

impl Live {
    /// Reads a page. The three are its bytes, read one after the other: what is true of a call in `page` belongs
    /// together if its sequence is the same in the reads around it.
    pub fn of(before: &[u8], page: &[u8], after: &[u8]) -> Result<Live, LiveError> {
        match number(page, header::MAGIC) {
            MAGIC => {}
            0 => return Err(LiveError::Empty),
            _ => return Err(LiveError::Other),
        }
        let (version, size) = (number(page, header::VERSION), number(page, header::SIZE));
        if version != VERSION {
            return Err(LiveError::Version(version));
        }
        if size != SIZE as u64 || [before, page, after].iter().any(|read| read.len() != SIZE) {
            return Err(LiveError::Other);
        }
        let sum = |at: usize| {
            let stripes = (0..STRIPES).map(|stripe| number(page, COUNTERS + stripe * STRIPE + at));
            stripes.fold(0, u64::saturating_add)
        };
        let mut calls: Vec<_> =
            (0..MOST_CALLS).filter_map(|place| LiveCall::of(before, page, after, place)).collect();
        calls.sort_by_key(|call| call.started);
        Ok(Live {
            pid: number(page, header::PID),
            unix_ms: number(page, header::UNIX_MS),
            monotonic_ns: number(page, header::MONOTONIC_NS),
            application: text(page, header::APPLICATION, header::APPLICATION_BYTES),
            folder: text(page, header::FOLDER, header::FOLDER_BYTES),
            workers: number(page, header::WORKERS),
            is_paused: number(page, header::PAUSED) != 0,
            written_records: number(page, header::WRITTEN_RECORDS),
            written_bytes: number(page, header::WRITTEN_BYTES),
            counters: std::array::from_fn(sum),
            calls,
            latest_key: latest_key(page),
        })
    }

    /// The value of a counter that the page has; 0 for others.
    pub fn get(&self, what: Count) -> u64 {
        place(what).map_or(0, |at| self.counters[at])
    }
}

/// The numbers of a call stay where they are until the place's next one. One that is just being written may be wrong.
fn latest_key(page: &[u8]) -> Option<u64> {
    let latest = |place: usize| {
        let of = |field: usize| number(page, CALLS + place * CALL + field);
        let is_of_program = of(call::SEQUENCE) % call::NEXT != call::WRITING && of(call::WORKER) == 0;
        (is_of_program && of(call::KEY) != 0).then(|| (of(call::STARTED), of(call::KEY)))
    };
    (0..MOST_CALLS).filter_map(latest).max().map(|(_, key)| key)
}

impl LiveCall {
    fn of(before: &[u8], page: &[u8], after: &[u8], place: usize) -> Option<LiveCall> {
        let at = |field: usize| CALLS + place * CALL + field;
        let sequence = number(before, at(call::SEQUENCE));
        let is_in_flight = sequence % call::NEXT == call::IN_FLIGHT;
        if !is_in_flight || number(after, at(call::SEQUENCE)) != sequence {
            return None;
        }
        let key = number(page, at(call::KEY));
        Some(LiveCall {
            thread: number(page, at(call::THREAD)),
            started: number(page, at(call::STARTED)),
            is_worker: number(page, at(call::WORKER)) != 0,
            key: (key != 0).then_some(key),
            stages: vk::ShaderStageFlags::from_raw(number(page, at(call::STAGES)) as u32),
            activity: Activity::of(number(page, at(call::ACTIVITY))),
        })
    }

    /// The key's digits, as many as are known.
    pub fn digits(&self) -> Option<String> {
        self.key.map(|key| format!("{key:016x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut [u8], at: usize, value: u64) {
        page[at * NUMBER..(at + 1) * NUMBER].copy_from_slice(&value.to_ne_bytes());
    }

    fn page() -> Vec<u8> {
        let mut page = vec![0; SIZE];
        put(&mut page, header::MAGIC, MAGIC);
        put(&mut page, header::VERSION, VERSION);
        put(&mut page, header::SIZE, SIZE as u64);
        page
    }

    #[test]
    fn what_is_no_page_of_this_version_is_told_in_words() {
        let read = |page: &[u8]| Live::of(page, page, page).unwrap_err();
        assert_eq!(read(&[]), LiveError::Empty);
        assert_eq!(read(&vec![1; SIZE]), LiveError::Other);
        assert_eq!(read(&page()[..SIZE - 1]), LiveError::Other);
        let mut newer = page();
        put(&mut newer, header::VERSION, 7);
        assert_eq!(read(&newer).to_string(), "its page has version 7, and this program reads version 1");
    }

    #[test]
    fn counters_of_all_stripes_add_up_and_lengths_are_not_believed() {
        let mut page = page();
        for stripe in 0..STRIPES {
            put(&mut page, COUNTERS + stripe * STRIPE + place(Count::Served).unwrap(), u64::MAX / 8);
            put(&mut page, COUNTERS + stripe * STRIPE + place(Count::Compiled).unwrap(), 2);
        }
        put(&mut page, header::APPLICATION, u64::MAX);
        let live = Live::of(&page, &page, &page).unwrap();
        assert_eq!((live.get(Count::Served), live.get(Count::Compiled)), (u64::MAX, 32));
        assert_eq!(live.get(Count::Modules), 0, "the page does not have it");
        assert_eq!(live.application.len(), header::APPLICATION_BYTES);
    }

    #[test]
    fn calls_are_shown_whole_or_not_at_all() {
        let (mut page, at) = (page(), CALLS + 3 * CALL);
        put(&mut page, at + call::SEQUENCE, 4 + call::IN_FLIGHT);
        put(&mut page, at + call::THREAD, 77);
        put(&mut page, at + call::KEY, 0x3f2a_91c4_0000_0001);
        put(&mut page, at + call::ACTIVITY, Activity::Compile as u64);
        let live = Live::of(&page, &page, &page).unwrap();
        let [call] = live.calls[..] else { panic!("{live:?}") };
        assert_eq!((call.thread, call.activity), (77, Some(Activity::Compile)));
        assert_eq!(call.digits().unwrap(), "3f2a91c400000001");
        for other in [4, 5, 8, 10] {
            let mut changed = page.clone();
            put(&mut changed, at + call::SEQUENCE, other);
            assert!(Live::of(&page, &page, &changed).unwrap().calls.is_empty(), "{other}");
            assert!(Live::of(&changed, &page, &page).unwrap().calls.is_empty(), "{other}");
        }
    }

    #[test]
    fn everything_has_a_place_of_its_own() {
        const {
            assert!(
                header::APPLICATION * NUMBER + NUMBER + header::APPLICATION_BYTES <= header::FOLDER * NUMBER
            )
        };
        const { assert!(header::FOLDER * NUMBER + NUMBER + header::FOLDER_BYTES <= COUNTERS * NUMBER) };
        const { assert!(COUNTERS + STRIPES * STRIPE <= CALLS) };
        const { assert!((CALLS + MOST_CALLS * CALL) * NUMBER == SIZE) };
        for &what in &COUNTED {
            assert_eq!(COUNTED[place(what).unwrap()], what);
        }
        assert!(Activity::ALL.iter().all(|&activity| Activity::of(activity as u64) == Some(activity)));
    }
}
