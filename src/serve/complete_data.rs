//! The data of the program's caches, and merges of them, complete with what the stash has served, or compiled, beside
//! them (state/caches/cache_answer.rs).

use ash::vk;

use crate::state::ahead::parked::UNKNOWN_BYTES;
use crate::state::caches::cache_answer::{DriverSize, WholeInUse};
use crate::state::caches::cache_state::CacheState;
use crate::state::caches::private_cache::PADDING;
use crate::state::devices::device::Device;
use vkstash_host::guard::tls_destroyed;
use vkstash_model::payload;
use vkstash_model::record::Key;

/// Answers vkGetPipelineCacheData. None: the driver is to be asked as if there was no layer.
///
/// # Safety
/// `handle` is a live cache that the program lets this thread read now; `data` is NULL, or valid for writes of `size`
/// bytes (VUID-vkGetPipelineCacheData-pData-parameter).
pub unsafe fn answer(
    device: &Device,
    handle: vk::PipelineCache,
    size: &mut usize,
    data: *mut u8,
) -> Option<vk::Result> {
    let (commands, of_program) = (&device.caches.commands, &device.caches.of_program);
    if device.caches.incremental {
        return None;
    }
    let Some(cache) = (if tls_destroyed() { None } else { of_program.get(handle) }) else {
        // SAFETY: as this function.
        return Some(unsafe { commands.copy_out(handle, None, size, data) });
    };
    let asked = DataQuery { device, handle, cache: &cache };
    // SAFETY: as this function.
    unsafe {
        if data.is_null() {
            *size = asked.size()?;
            return Some(vk::Result::SUCCESS);
        }
        let room = *size;
        asked.complete(size, data).or_else(|| {
            *size = room;
            Some(asked.copy_out(size, data))
        })
    }
}

/// Who has everything that the data of a cache of the program's must hold.
enum Holder {
    /// The driver's own object: nothing was made beside it that it lacks.
    Driver,
    /// The whole, whose data has so many bytes.
    Whole(usize),
}

/// A cache of the program's whose data is asked for.
///
/// The `unsafe` methods need a live cache that the program lets this thread read now.
struct DataQuery<'a> {
    device: &'a Device,
    handle: vk::PipelineCache,
    cache: &'a CacheState,
}

impl<'a> DataQuery<'a> {
    /// The most bytes that a read gets. Nothing but what was added since the last question is merged; of what the
    /// driver itself has added to its object since that was merged, the growth is added.
    unsafe fn size(&self) -> Option<usize> {
        let DataQuery { device, cache, .. } = self;
        let of_program = match self.known() {
            Some(known) => known,
            // SAFETY: as this method.
            None => unsafe { self.ask_driver() }?,
        };
        // A piece that comes from here on may be in the answer, or not.
        let (pieces, bytes) = (cache.answer.bytes(), of_program.bytes);
        if cache.answer.is_empty() {
            return Some(cache.answer.tell(bytes, pieces, bytes));
        }
        let Some(mut whole) = cache.answer.take_out(&device.caches.commands) else {
            return Some(cache.answer.tell_apart(bytes));
        };
        // SAFETY: as this method.
        let Holder::Whole(all) = (unsafe { self.bring_up_to_date(&mut whole, of_program, false) })? else {
            // The driver has used some of what the program's file has, and will use the rest.
            return Some(cache.answer.tell(bytes + PADDING, pieces, bytes));
        };
        let merged = whole.contents.of_program.filter(|merged| cache.has_news_since(merged.news));
        let grown = bytes.saturating_sub(merged.map_or(bytes, |merged| merged.bytes));
        let slack = if grown > 0 { bytes / 128 + PADDING } else { 0 };
        Some(cache.answer.tell(all + grown + slack, pieces, bytes))
    }

    /// The complete data, written by the driver to the program's memory. None: the driver's answer is complete, or
    /// nothing better can be had.
    ///
    /// # Safety
    /// And `data` is valid for writes of `size` bytes.
    unsafe fn complete(&self, size: &mut usize, data: *mut u8) -> Option<vk::Result> {
        let DataQuery { device, cache, .. } = self;
        if cache.answer.is_empty() {
            return None;
        }
        // DataQuery again: commands that nobody hooks may fill the driver's object, too.
        // SAFETY: as this method.
        let of_program = unsafe { self.ask_driver() }?;
        let pieces = cache.answer.bytes();
        let Some(mut whole) = cache.answer.wait_for(&device.caches.commands) else {
            // SAFETY: as this method.
            return unsafe { self.complete_apart(of_program, size, data) };
        };
        // SAFETY: as this method.
        let Holder::Whole(bytes) = (unsafe { self.bring_up_to_date(&mut whole, of_program, true) })? else {
            return None;
        };
        cache.answer.tell(bytes, pieces, of_program.bytes);
        // SAFETY: as this method.
        let result = unsafe { whole.cache()?.copy_out(Some(bytes), size, data) };
        (result.as_raw() >= 0).then_some(result)
    }

    /// [`complete`](DataQuery::complete) while another thread keeps the whole: all of it is put together once more,
    /// from the stash.
    ///
    /// # Safety
    /// As [`complete`](DataQuery::complete).
    unsafe fn complete_apart(
        &self,
        of_program: DriverSize,
        size: &mut usize,
        data: *mut u8,
    ) -> Option<vk::Result> {
        let commands = &self.device.caches.commands;
        let all = commands.private(&[])?;
        if of_program.bytes > commands.empty_size()? {
            // SAFETY: as this method; nobody else has `all`.
            unsafe { all.take_from(self.handle) }?;
        }
        for key in self.cache.pending() {
            if let Some(part) = blob_of(self.device, &key).and_then(|blob| commands.private(&blob)) {
                // SAFETY: both caches are the layer's, and only this thread uses them.
                unsafe { all.take_from(part.handle()) }?;
            }
        }
        // SAFETY: as this method.
        let result = unsafe { all.copy_out(None, size, data) };
        (result.as_raw() >= 0).then_some(result)
    }

    /// The driver's own data.
    ///
    /// # Safety
    /// As [`complete`](DataQuery::complete).
    unsafe fn copy_out(&self, size: &mut usize, data: *mut u8) -> vk::Result {
        let DataQuery { device, handle, cache } = self;
        let commands = &device.caches.commands;
        let mut known = self.known().map(|known| known.bytes);
        // SAFETY: as this method; nobody adds to the cache or to its copy, or there was room for what it had.
        unsafe {
            if cache.is_in_call() {
                known = commands.size(*handle);
                // What a call adds meanwhile would be written as well by a driver that writes all it has where not even
                // one entry fits (contract 4.8). A copy may have a few bytes more than its source.
                let has_entries = known.zip(commands.empty_size()).is_some_and(|(all, empty)| all > empty);
                let is_safe = has_entries && known.is_some_and(|all| all <= *size);
                if let Some(copy) = if is_safe { None } else { commands.snapshot(*handle) } {
                    return copy.copy_out(None, size, data);
                }
            }
            let result = commands.copy_out(*handle, known, size, data);
            if result != vk::Result::SUCCESS {
                // It has more than was known: a program asks again until it has all.
                cache.answer.note_asked(None);
            }
            result
        }
    }

    /// What the driver's object has, where nothing has been added since the driver was asked.
    fn known(&self) -> Option<DriverSize> {
        self.cache.answer.asked().filter(|asked| self.cache.is_filled_as(asked.fills))
    }

    /// What the driver's object has now.
    unsafe fn ask_driver(&self) -> Option<DriverSize> {
        // Read first: what changes from here on is asked for again.
        let (fills, news) = (self.cache.fills(), self.cache.news());
        // SAFETY: as this method.
        let bytes = unsafe { self.device.caches.commands.size(self.handle) }?;
        let of_program = DriverSize { fills, news, bytes };
        self.cache.answer.note_asked(Some(of_program));
        Some(of_program)
    }

    /// Merges what the whole lacks. `fully`: also what the driver has added to an object that was merged before, which
    /// costs what the object has.
    unsafe fn bring_up_to_date(
        &self,
        whole: &mut WholeInUse<'a>,
        of_program: DriverSize,
        fully: bool,
    ) -> Option<Holder> {
        let DataQuery { device, handle, cache } = self;
        let merge = |whole: &mut WholeInUse<'a>| {
            // SAFETY: as this method; nobody else has the whole.
            unsafe { whole.take_from(*handle) }?;
            whole.contents.of_program = Some(of_program);
            Some(())
        };
        take_in_pieces(device, cache, whole)?;
        if whole.contents.of_program.is_none() && of_program.bytes > device.caches.commands.empty_size()? {
            merge(whole)?;
        }
        let Some(merged) = whole.contents.of_program else { return whole.bytes().map(Holder::Whole) };
        if whole.bytes()? <= merged.bytes + PADDING {
            // Drivers only add to their object.
            return Some(Holder::Driver);
        }
        // Pipelines that the whole has are not merged once more: that may change the order of the entries, and so the
        // size. An object that has grown in no call was filled by a command that nobody hooks.
        let is_news = cache.has_news_since(merged.news) || merged.fills == of_program.fills;
        if fully && merged.bytes != of_program.bytes && is_news {
            merge(whole)?;
        }
        whole.bytes().map(Holder::Whole)
    }
}

/// Merges what was made beside a cache into its whole.
fn take_in_pieces(device: &Device, cache: &CacheState, whole: &mut WholeInUse<'_>) -> Option<()> {
    whole.take_in(|key| blob_of(device, key))?;
    let fills = cache.answer.companion_answers();
    if whole.contents.of_companion.map_or(0, |seen| seen.fills) == fills {
        return Some(());
    }
    let Some(companion) = cache.pending.companion.current() else { return Some(()) };
    // SAFETY: the generation lives as long as this thread has it, and nobody merges into it.
    let bytes = unsafe { device.caches.commands.size(companion.handle()) }?;
    // It has more if the driver found the pipeline on its disk.
    if whole.contents.of_companion.is_none_or(|seen| seen.bytes != bytes) {
        // SAFETY: as above; nobody else has the whole.
        unsafe { whole.take_from(companion.handle()) }?;
    }
    whole.contents.of_companion = Some(DriverSize { fills, news: fills, bytes });
    Some(())
}

/// The program has merged `source` into another cache, and the driver has done so with its objects. What was made
/// beside `source` is beside that one, too.
pub fn merge(device: &Device, into: &CacheState, source: &CacheState) {
    let keys = into.merge_from(source);
    if source.answer.is_empty() {
        return;
    }
    let commands = &device.caches.commands;
    let copy = || {
        let mut whole = source.answer.take_out(commands)?;
        take_in_pieces(device, source, &mut whole)?;
        // SAFETY: a live cache of the layer's that this thread has taken out.
        unsafe { commands.snapshot(whole.cache()?.handle()) }
    };
    match copy() {
        Some(copy) => into.answer.add(copy, source.answer.bytes()),
        None => keys.iter().for_each(|key| into.answer.add_artifact(key, artifact_bytes(device, key))),
    }
}

/// The program merges `source` into a cache whose creation the layer did not see. Nothing can be kept beside that one,
/// so what was made beside `source` is merged into the driver's own object at once.
///
/// # Safety
/// `into` is a live cache that the program lets this thread change now.
pub unsafe fn flush(device: &Device, into: vk::PipelineCache, source: &CacheState) {
    let commands = &device.caches.commands;
    if source.answer.is_empty() {
        return;
    }
    let Some(mut whole) = source.answer.take_out(commands) else { return };
    if take_in_pieces(device, source, &mut whole).is_none() {
        return;
    }
    if let Some(whole) = whole.cache() {
        // SAFETY: `into` is a live cache that the program lets this thread change; only this thread uses the
        // source. A failure costs the program a compile.
        let _ = unsafe { commands.merge(into, &[whole.handle()]) };
    }
}

/// The bytes of an artifact in the stash. Of one that a base has they are not known.
pub fn artifact_bytes(device: &Device, key: &Key) -> usize {
    let bytes = device.stored().and_then(|stored| stored.device.artifact_length(key));
    bytes.unwrap_or(UNKNOWN_BYTES) as usize
}

/// The blob of an artifact in the stash.
pub fn blob_of(device: &Device, key: &Key) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    if !device.stored()?.read_taken(key, &mut payload) {
        return None;
    }
    payload::parse(&payload)?;
    payload.drain(..payload::PREFIX);
    Some(payload)
}
