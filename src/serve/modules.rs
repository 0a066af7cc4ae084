//! Stages that are named by identifier, on a driver that does not know identifiers.
//!
//! Their structures must not reach it, and where an artifact is served the code comes from the stash.

use ash::vk;
use smallvec::SmallVec;

use super::call::Call;
use super::create_info::{CreateInfo, Creation};
use crate::state::devices::decided::IdentifierMode;
use crate::state::devices::device::Device;
use crate::state::process::stored::Stored;
use vkstash_model::identifier::NativeIdentifier;
use vkstash_model::key;
use vkstash_model::payload;
use vkstash_model::recipe::{Code, Recipe};
use vkstash_model::record::Key;
use vkstash_recipe::capture::stage::{self, Named, Naming};
use vkstash_recipe::chain::{self, Arena, Edit};

type Stages = SmallVec<[vk::PipelineShaderStageCreateInfo<'static>; 5]>;

/// Stages without their identifier structures.
#[derive(Default)]
pub struct Stripped(Stages);

/// A copy of the create info whose stages carry no identifier structures. None where a chain cannot be
/// copied.
///
/// # Safety
/// `creation` is of a valid create info; the copy is used only while `arena`, `kept` and the original live and stay
/// where they are.
pub unsafe fn without_identifiers<'a, I: CreateInfo>(
    creation: &Creation<'a, I>,
    arena: &mut Arena,
    kept: &'a mut Stripped,
) -> Option<Creation<'a, I>> {
    let identifier = vk::StructureType::PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT;
    // SAFETY: the stages' chains are valid, and the table's sizes are those of the structures; the caller
    // keeps `arena`, `kept` and the original while it uses the copy, which the longer lifetime relies on.
    unsafe {
        for info in creation.parsed.stages {
            let p_next = chain::copy_chain(arena, info.p_next, chain::table_size, |node| {
                if (*node).s_type == identifier { Edit::Drop } else { Edit::Keep }
            })?;
            kept.0.push(vk::PipelineShaderStageCreateInfo { p_next, ..lengthened(info) });
        }
        Some(creation.with_stages(&kept.0))
    }
}

/// A copy without identifier structures where the identifiers are the layer's. None: there are none.
///
/// # Safety
/// As [`without_identifiers`].
pub unsafe fn without_emulated_identifiers<'a, I: CreateInfo>(
    call: &Call<'a, I>,
    arena: &mut Arena,
    kept: &'a mut Stripped,
) -> Option<Creation<'a, I>> {
    let emulated = call.device.decided.identifiers == IdentifierMode::Emulated;
    if !emulated || !call.parsed().naming.identifier_structure {
        return None;
    }
    // SAFETY: `call.creation` is of a valid create info; the caller keeps `arena`, `kept` and the original.
    unsafe { without_identifiers(call.creation, arena, kept) }
}

/// # Safety
/// The copy is used only while what `info` points to lives.
unsafe fn lengthened(
    info: &vk::PipelineShaderStageCreateInfo<'_>,
) -> vk::PipelineShaderStageCreateInfo<'static> {
    // SAFETY: the types differ in lifetime alone.
    unsafe { std::mem::transmute_copy(info) }
}

/// Modules made from stored SPIR-V for one call.
pub struct StoredModules<'a> {
    device: &'a Device,
    modules: SmallVec<[vk::ShaderModule; 5]>,
    stages: Stages,
    lacking: bool,
}

impl<'a> StoredModules<'a> {
    /// No modules yet: nothing is allocated until a stage needs one.
    pub fn new(device: &'a Device) -> StoredModules<'a> {
        StoredModules { device, modules: SmallVec::new(), stages: SmallVec::new(), lacking: false }
    }

    /// Whether the last attempt failed because the stash does not have a module's code.
    pub fn lacks_one(&self) -> bool {
        self.lacking
    }

    /// A copy of the create info whose stages all have modules. None where the stash lacks one.
    ///
    /// # Safety
    /// `creation` is the valid create info that `recipe` was captured from, or its copy; the copy is used only while
    /// `self` lives and stays where it is.
    pub unsafe fn put_in<'b, I: CreateInfo>(
        &'b mut self,
        creation: &Creation<'b, I>,
        recipe: &[u8],
        stored: &Stored,
    ) -> Option<Creation<'b, I>> {
        let recipe = key::decode::<Recipe<'_>>(recipe).ok()?;
        let stages = recipe.pipeline.stages();
        let identity = |index: usize| match stages.get(index)?.code {
            Code::Module(identity) => Some(identity),
            Code::Native { .. } => None,
        };
        // SAFETY: the create info is the one that `recipe` describes, so the stages have the same order in
        // both; the caller keeps `self` in place.
        unsafe { self.put_in_by(creation, stored, |index, _| identity(index)) }
    }

    /// [`StoredModules::put_in`] for a create info whose stages still carry their identifiers, which are module
    /// identities.
    ///
    /// # Safety
    /// `creation` is of a valid create info; the copy is used only while `self` lives and stays where it is.
    pub unsafe fn put_in_by_identifier<'b, I: CreateInfo>(
        &'b mut self,
        creation: &Creation<'b, I>,
        stored: &Stored,
    ) -> Option<Creation<'b, I>> {
        // SAFETY: `creation` is of a valid create info; the caller keeps `self`, in which the modules are, in place.
        unsafe { self.put_in_by(creation, stored, |_, native| Key::try_from(native?.as_bytes()).ok()) }
    }

    /// # Safety
    /// `creation` is of a valid create info; the copy is used only while `self` lives and stays where it is.
    unsafe fn put_in_by<'b, I: CreateInfo>(
        &'b mut self,
        creation: &Creation<'b, I>,
        stored: &Stored,
        identity: impl Fn(usize, Option<NativeIdentifier>) -> Option<Key>,
    ) -> Option<Creation<'b, I>> {
        // SAFETY: the stages and their chains are valid; the copies of them are in `self`, which the caller
        // keeps in place while it uses the create info.
        unsafe {
            for (index, info) in creation.parsed.stages.iter().enumerate() {
                let mut stage = lengthened(info);
                let native = match stage::named(info) {
                    Some(Named::Module(_) | Named::Inline(_)) => {
                        self.stages.push(stage);
                        continue;
                    }
                    Some(Named::Identifier(native)) => Some(native),
                    None => None,
                };
                stage.module = self.create(&identity(index, native)?, stored)?;
                self.stages.push(stage);
            }
            let mut complete = creation.with_stages(&self.stages);
            complete.parsed.naming = Naming::default();
            Some(complete)
        }
    }

    fn create(&mut self, identity: &Key, stored: &Stored) -> Option<vk::ShaderModule> {
        let mut bytes = Vec::new();
        if !stored.read_module(identity, &mut bytes) {
            self.lacking = true;
            return None;
        }
        let (flags, words) = payload::module(&bytes)?;
        let info = vk::ShaderModuleCreateInfo::default().flags(flags).code(&words);
        let mut module = vk::ShaderModule::null();
        // SAFETY: SPIR-V that a program once passed: the identity is its digest.
        let result = unsafe {
            (self.device.table.create_shader_module?)(
                self.device.handle,
                &info,
                std::ptr::null(),
                &mut module,
            )
        };
        if result != vk::Result::SUCCESS {
            return None;
        }
        self.modules.push(module);
        Some(module)
    }
}

impl Drop for StoredModules<'_> {
    fn drop(&mut self) {
        let Some(destroy) = self.device.table.destroy_shader_module else { return };
        for &module in &self.modules {
            // SAFETY: a module of the layer's, created without an allocator; the call that used it is over.
            unsafe { destroy(self.device.handle, module, std::ptr::null::<vk::AllocationCallbacks<'_>>()) };
        }
    }
}
