//! Shader objects (VK_EXT_shader_object): made of their binaries in the stash, or else by the driver, which then gives
//! out their binaries.
//!
//! Linked shaders are one record, and are served together or not at all. Binaries that do not fit must be refused by
//! the driver (VK_INCOMPATIBLE_SHADER_BINARY_EXT), which never compiles them.

use std::time::{Duration, Instant};

use ash::vk::{self, Handle};

use super::record::passes;
use super::settle::{self, Counts};
use crate::live::call::Call;
use crate::state::caches::sized_data;
use crate::state::devices::compiling::Compiling;
use crate::state::devices::device::Device;
use crate::state::objects::described::Encoded;
use crate::state::objects::shader_code::Binaries;
use crate::state::process::stored::Stored;
use vkstash_host::sort;
use vkstash_model::counters::{BypassReason, Count};
use vkstash_model::failed::Refusals;
use vkstash_model::key;
use vkstash_model::live::Activity;
use vkstash_model::payload::{self, ShaderBinaries, StoredShaders, module_record};
use vkstash_model::record::{Key, Kind};
use vkstash_recipe::capture::{InlineModules, shaders as capture};
use vkstash_recipe::chain::Refusal;
use vkstash_store::part::admission::Admission;

type Info<'a> = vk::ShaderCreateInfoEXT<'a>;

/// The places of shaders in a call that belong together: one, or those that are linked, in the order of their stages.
type Unit = Vec<usize>;

/// The program's call.
#[derive(Clone, Copy)]
struct Making<'a> {
    device: &'a Device,
    /// Which drivers take this driver's binaries.
    takes: &'a ShaderBinaries,
    allocator: *const vk::AllocationCallbacks<'a>,
}

/// Shaders that the driver has to make, and that are recorded then.
struct Missing<'a> {
    unit: Unit,
    described: Described<'a>,
    refusals: Recorded,
}

/// How often in a row the driver has refused what was recorded of shaders. None: it is not recorded again, because the
/// driver has refused it too often, or because what the stash has is good, and could not be used.
type Recorded = Option<Refusals>;

impl Missing<'_> {
    /// The driver is about to compile them. None: nothing is kept.
    fn compiling(&self, device: &Device, given: &[Info<'_>]) -> Option<Compiling> {
        let stages = self.unit.iter().fold(vk::ShaderStageFlags::empty(), |all, &at| all | given[at].stage);
        device.stored().map(|stored| Compiling::begin(stored, &self.described.key, stages))
    }
}

/// Shaders that the driver has made of their code.
pub struct NewShaders<'a> {
    /// Which drivers take their binaries.
    takes: &'a ShaderBinaries,
    units: Vec<(Vec<vk::ShaderEXT>, Described<'a>, Recorded)>,
    /// What the driver needed for one shader.
    cost: Duration,
}

/// What is known of a unit.
struct Described<'a> {
    key: Key,
    recipe: Vec<u8>,
    layout: Encoded,
    /// The code of each shader, and its identity.
    codes: Vec<(&'a [u8], Key)>,
}

/// Shaders that were made of the stash's binaries: destroyed, unless the program gets them.
struct Served<'a> {
    device: &'a Device,
    allocator: *const vk::AllocationCallbacks<'a>,
    handles: Vec<(usize, vk::ShaderEXT)>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let handles = self.handles.iter().map(|(_, shader)| *shader);
        // SAFETY: the shaders were made with this allocator, and nobody else has had their handles.
        unsafe { destroy(self.device, self.allocator, handles) };
    }
}

/// # Safety
/// The shaders are NULL or of this device, were made with this allocator, and nobody else uses them.
unsafe fn destroy(
    device: &Device,
    allocator: *const vk::AllocationCallbacks<'_>,
    shaders: impl Iterator<Item = vk::ShaderEXT>,
) {
    let Some(destroy) = device.table.destroy_shader else { return };
    for shader in shaders.filter(|shader| !shader.is_null()) {
        let _code = device.objects.shader_code.forget(shader);
        // SAFETY: a live shader that nobody else uses, with the allocator of its creation.
        unsafe { destroy(device.handle, shader, allocator) };
    }
}

/// Makes the shaders of a call. Also returns what [`record`] takes.
///
/// # Safety
/// The arguments are those of vkCreateShadersEXT; the create infos stay valid for `'a`. `next` is the next layer's
/// command.
pub unsafe fn create<'a>(
    device: &'a Device,
    takes: &'a ShaderBinaries,
    next: vk::PFN_vkCreateShadersEXT,
    count: u32,
    infos: *const Info<'a>,
    allocator: *const vk::AllocationCallbacks<'a>,
    shaders: *mut vk::ShaderEXT,
) -> (vk::Result, NewShaders<'a>) {
    // SAFETY: `count` valid create infos, which is not 0 (VUID-vkCreateShadersEXT-createInfoCount-arraylength).
    let given = unsafe { std::slice::from_raw_parts(infos, count as usize) };
    let mut served = Served { device, allocator, handles: Vec::new() };
    let mut missing: Vec<Missing<'a>> = Vec::new();
    let mut is_served: Vec<bool> = given.iter().map(|_| false).collect();
    let mut counts = Counts::new();
    let making = Making { device, takes, allocator };
    let live = Call::begin(Instant::now(), Activity::Stash, vk::ShaderStageFlags::empty());
    for unit in units(given) {
        let shaders: Vec<&Info<'a>> = unit.iter().map(|&place| &given[place]).collect();
        // SAFETY: valid create infos of shaders of SPIR-V.
        match unsafe { Described::of(device, &shaders) } {
            // They are counted with what else the driver gets unchanged, and not as pipelines.
            Err(refusal) => tracing::info!("a shader object bypasses the stash: {}", refusal.reason.name()),
            // SAFETY: the same create infos, and the program's allocator.
            Ok(described) => match unsafe { offer(making, &described, &shaders, &mut counts) } {
                Ok(handles) => {
                    unit.iter().for_each(|&place| is_served[place] = true);
                    served.handles.extend(unit.into_iter().zip(handles));
                }
                Err(refusals) => missing.push(Missing { unit, described, refusals }),
            },
        }
    }
    live.goes_on(Activity::Compile);
    let left: Vec<usize> = (0..given.len()).filter(|&place| !is_served[place]).collect();
    let compiling = missing.iter().filter_map(|missing| missing.compiling(device, given));
    let compiling: Vec<Compiling> = compiling.collect();
    let began = Instant::now();
    // SAFETY: the arguments of the command, or copies of the create infos that are left with as many handles.
    let result = unsafe {
        if left.len() == given.len() {
            next(device.handle, count, infos, allocator, shaders)
        } else if left.is_empty() {
            vk::Result::SUCCESS
        } else {
            let infos: Vec<Info<'a>> = left.iter().map(|&place| given[place]).collect();
            let mut made: Vec<vk::ShaderEXT> = left.iter().map(|_| vk::ShaderEXT::null()).collect();
            let result = next(device.handle, left.len() as u32, infos.as_ptr(), allocator, made.as_mut_ptr());
            left.iter().zip(made).for_each(|(&place, made)| *shaders.add(place) = made);
            result
        }
    };
    let cost = began.elapsed() / u32::try_from(left.len().max(1)).unwrap_or(u32::MAX);
    compiling.into_iter().for_each(|compiling| compiling.end(device.stored(), result == vk::Result::SUCCESS));
    for (place, shader) in std::mem::take(&mut served.handles) {
        // SAFETY: the place of one of the `count` shaders.
        unsafe { *shaders.add(place) = shader };
    }
    let mut units = Vec::new();
    if result.as_raw() >= 0 {
        // SAFETY: the driver, or the lines above, have written a handle or NULL to each of the `count` places.
        let handles = unsafe { std::slice::from_raw_parts(shaders, given.len()) };
        units = new_units(&left, missing, handles, &mut counts);
    }
    settle::add(device, counts);
    (result, NewShaders { takes, units, cost })
}

/// Those of the missing shaders that the driver has made, and counts all that it has made. It need not have made all:
/// binaries of the program's own may be incompatible, which is no error.
fn new_units<'a>(
    left: &[usize],
    missing: Vec<Missing<'a>>,
    handles: &[vk::ShaderEXT],
    counts: &mut Counts,
) -> Vec<(Vec<vk::ShaderEXT>, Described<'a>, Recorded)> {
    let (mut units, mut compiled) = (Vec::new(), 0);
    for Missing { unit, described, refusals } in missing {
        let made: Vec<vk::ShaderEXT> = unit.iter().map(|&place| handles[place]).collect();
        if made.iter().all(|shader| !shader.is_null()) {
            compiled += made.len() as u64;
            units.push((made, described, refusals));
        }
    }
    let all = left.iter().filter(|&&place| !handles[place].is_null()).count() as u64;
    counts.extend([(Count::ShadersCompiled, compiled), (Count::ShadersPassedOn, all - compiled)]);
    units
}

/// The shaders of SPIR-V of a call. What the program has made of binaries of its own is in none.
fn units(infos: &[Info<'_>]) -> Vec<Unit> {
    let is_linked = |info: &Info<'_>| info.flags.contains(vk::ShaderCreateFlagsEXT::LINK_STAGE);
    let mut linked = Unit::new();
    let mut units = Vec::new();
    for (place, info) in infos.iter().enumerate() {
        match info.code_type {
            vk::ShaderCodeTypeEXT::SPIRV if is_linked(info) => linked.push(place),
            vk::ShaderCodeTypeEXT::SPIRV => units.push(std::iter::once(place).collect()),
            _ => {}
        }
    }
    if !linked.is_empty() {
        sort::by_key(&mut linked, |&place| infos[place].stage.as_raw());
        units.push(linked);
    }
    units
}

impl<'a> Described<'a> {
    /// # Safety
    /// Valid create infos of shaders of SPIR-V, of which there is at least one.
    unsafe fn of(device: &Device, infos: &[&'a Info<'a>]) -> Result<Described<'a>, Refusal> {
        let layout = |info: &Info<'a>| {
            let info = capture::layout(info);
            // SAFETY: the arrays of a valid create info.
            unsafe { Encoded::of_layout(&device.objects.set_layouts, &info, true) }
        };
        let (first, others) = infos.split_first().ok_or(Refusal::plain(BypassReason::WrongStructure))?;
        let common = layout(first)?;
        for other in others {
            if layout(other)?.digest != common.digest {
                return Err(Refusal::plain(BypassReason::NotCacheable));
            }
        }
        let (mut inline, mut recipe) = (InlineModules::new(), Vec::new());
        // SAFETY: valid create infos of shaders of SPIR-V, which live for `'a`.
        let described = unsafe { capture::shaders(infos, common.digest, device, &mut inline) }?;
        key::encode(&described, &mut recipe).map_err(|_| Refusal::plain(BypassReason::NotCacheable))?;
        let key = key::digest(key::RECIPE, &recipe);
        // SAFETY: pCode has codeSize bytes in each of them.
        let codes = infos.iter().map(|info| unsafe { capture::code(info) }).zip(inline).collect();
        Ok(Described { key, recipe, layout: common, codes })
    }
}

/// Has the driver make the shaders of what the stash has: of its own part, or else of those of other versions of the
/// driver.
///
/// # Safety
/// The create infos are valid and those that were described, and `allocator` is the program's.
unsafe fn offer(
    making: Making<'_>,
    described: &Described<'_>,
    infos: &[&Info<'_>],
    counts: &mut Counts,
) -> Result<Vec<vk::ShaderEXT>, Recorded> {
    let device = making.device;
    let Some(stored) = device.stored() else { return Err(None) };
    let (key, mut buffer, started) = (&described.key, Vec::new(), Instant::now());
    // Once for each key of a run.
    let saves = |record: &[u8]| {
        let cost = StoredShaders::parse(record).map_or(Duration::ZERO, |found| found.cost);
        (Count::SavedNanos, cost.saturating_sub(started.elapsed()).as_nanos() as u64)
    };
    if stored.device.read(Kind::Artifact, key, &mut buffer) {
        // SAFETY: the arguments of this function.
        match unsafe { offer_record(making, stored, key, &buffer, infos, counts) } {
            Ok(made) => {
                let is_first = stored.note_taken(key);
                counts.extend(is_first.then(|| saves(&buffer)));
                return Ok(made);
            }
            Err(Some(Refusals::NONE)) => {}
            Err(refusals) => return Err(refusals),
        }
    }
    let mut from = 0;
    while let Some(number) = stored.read_version(key, from, &mut buffer) {
        from = number + 1;
        // SAFETY: the arguments of this function.
        if let Ok(made) = unsafe { offer_record(making, stored, key, &buffer, infos, counts) } {
            counts.push((Count::ShadersOtherVersion, made.len() as u64));
            let is_first = stored.note_use(key);
            counts.extend(is_first.then(|| saves(&buffer)));
            // The other part may be deleted before the next run.
            stored.device.put(Kind::Artifact, key, buffer.into_boxed_slice());
            return Ok(made);
        }
    }
    Err(Some(Refusals::NONE))
}

/// Has the driver make the shaders of one record.
///
/// # Safety
/// As [`offer`].
unsafe fn offer_record(
    making: Making<'_>,
    stored: &Stored,
    key: &Key,
    record: &[u8],
    infos: &[&Info<'_>],
    counts: &mut Counts,
) -> Result<Vec<vk::ShaderEXT>, Recorded> {
    let Making { device, takes, allocator } = making;
    let Some(create) = device.table.create_shaders else { return Err(None) };
    let is_whole = |found: &StoredShaders<'_>| {
        found.binaries.len() == infos.len() && found.binaries.iter().all(|binary| !binary.is_empty())
    };
    let found = StoredShaders::parse(record).filter(|found| is_whole(found) && takes.take(&found.made_by));
    // Nothing that this driver has made was refused.
    let Some(found) = found else { return Err(Some(Refusals::NONE)) };
    let refusals = Refusals::of(record);
    if refusals.are_too_many() {
        return Err(None);
    }
    let copied = Binaries::copy(&found.binaries).filter(|copied| device.objects.shader_code.has_room(copied));
    let Some(binaries) = copied else { return Err(None) };
    let admission = stored.device.admit(key);
    match admission {
        Admission::Granted(_) => {}
        Admission::NotYet => {
            counts.push((Count::NotReady, 1));
            return Err(None);
        }
        Admission::Quarantined => {
            counts.push((Count::Quarantined, 1));
            return Err(None);
        }
    }
    let offered: Vec<Info<'_>> = infos
        .iter()
        .zip(binaries.each())
        .map(|(info, (p_code, code_size))| Info {
            code_type: vk::ShaderCodeTypeEXT::BINARY,
            p_code,
            code_size,
            ..**info
        })
        .collect();
    let mut made: Vec<vk::ShaderEXT> = infos.iter().map(|_| vk::ShaderEXT::null()).collect();
    // SAFETY: the program's create infos, with the binaries that such a driver has given out for just these
    // (VUID-VkShaderCreateInfoEXT-pCode-08492 for their alignment), and room for as many handles.
    let result = unsafe {
        create(device.handle, offered.len() as u32, offered.as_ptr(), allocator, made.as_mut_ptr())
    };
    drop(admission);
    if result == vk::Result::SUCCESS && made.iter().all(|shader| !shader.is_null()) {
        counts.push((Count::ShadersServed, made.len() as u64));
        device.objects.shader_code.keep(&made, binaries);
        return Ok(made);
    }
    // SAFETY: what was made in part, which nobody has seen.
    unsafe { destroy(device, allocator, made.into_iter()) };
    if passes(result) {
        return Err(None);
    }
    // Another error counts as a refusal. The driver gets the program's own call now, whose error is the program's.
    counts.push((Count::ShadersNotTaken, infos.len() as u64));
    Err(Some(refusals.and_one()))
}

/// Records the binaries of shaders that the driver has made, and whatever of their recipes is missing.
///
/// # Safety
/// The shaders are alive, and no other thread destroys them meanwhile.
pub unsafe fn record(device: &Device, made: NewShaders<'_>) {
    let Some(stored) = device.stored() else { return };
    for (shaders, described, refusals) in made.units {
        let Some(refusals) = refusals else { continue };
        // SAFETY: live shaders of this device.
        let binaries = shaders.iter().map(|shader| unsafe { binary(device, *shader) });
        let Some(binaries) = binaries.collect::<Option<Vec<Binary>>>() else { continue };
        let binaries: Vec<&[u8]> = binaries.iter().map(Binary::bytes).collect();
        let cost = made.cost * shaders.len() as u32;
        let Some(payload) = payload::shaders_payload(cost, refusals, made.takes, &binaries) else { continue };
        if !stored.put_own(device.counters(), Kind::Artifact, &described.key, payload.into_boxed_slice()) {
            continue;
        }
        for (code, identity) in &described.codes {
            if !stored.has_module(identity) {
                let record = module_record(vk::ShaderModuleCreateFlags::empty(), code);
                stored.put_module(device.counters(), identity, record);
            }
        }
        let Encoded { digest, bytes, .. } = &described.layout;
        if !stored.portable.has(Kind::Layout, digest, bytes) {
            stored.put(device.counters(), Kind::Layout, digest, bytes);
        }
        if !stored.portable.has(Kind::Recipe, &described.key, &described.recipe) {
            stored.put(device.counters(), Kind::Recipe, &described.key, &described.recipe);
        }
        stored.note_use(&described.key);
        settle::add(device, Counts::from_slice(&[(Count::ShadersRecorded, shaders.len() as u64)]));
    }
}

/// The binary of a shader, where the driver may write it (VUID-vkGetShaderBinaryDataEXT-None-08499: at an address that
/// is a multiple of 16), and its length.
struct Binary(Vec<u128>, usize);

impl Binary {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialized, and there are at least so many bytes of them.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }
}

/// The binary of a shader. None: the driver does not give it.
///
/// # Safety
/// A live shader of this device.
unsafe fn binary(device: &Device, shader: vk::ShaderEXT) -> Option<Binary> {
    let get = device.table.get_shader_binary_data?;
    // SAFETY: a live shader that only this thread knows; `read` passes NULL, or a buffer for everything.
    let ask = |size: &mut usize, data| unsafe { get(device.handle, shader, size, data) };
    sized_data::read(&[], ask).ok().map(|(words, bytes)| Binary(words, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_shaders_are_one_unit_in_the_order_of_their_stages_and_own_binaries_are_in_none() {
        let shader = |stage, is_linked, code_type| {
            let link = vk::ShaderCreateFlagsEXT::LINK_STAGE;
            let flags = if is_linked { link } else { vk::ShaderCreateFlagsEXT::empty() };
            Info { stage, flags, code_type, ..Info::default() }
        };
        let (spirv, binary) = (vk::ShaderCodeTypeEXT::SPIRV, vk::ShaderCodeTypeEXT::BINARY);
        let infos = [
            shader(vk::ShaderStageFlags::FRAGMENT, true, spirv),
            shader(vk::ShaderStageFlags::COMPUTE, false, spirv),
            shader(vk::ShaderStageFlags::VERTEX, true, spirv),
            shader(vk::ShaderStageFlags::COMPUTE, false, binary),
        ];
        assert_eq!(units(&infos), [vec![1], vec![2, 0]]);
        assert!(units(&infos[3..]).is_empty());
    }
}
