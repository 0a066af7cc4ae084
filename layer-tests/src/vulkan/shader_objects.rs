//! VK_EXT_shader_object for tests: objects made of SPIR-V or of binaries, alone or linked.

use std::ffi::c_void;
use std::ptr;

use ash::vk::Handle as _;
use ash::{ext, vk};

use super::{Device, DeviceOptions};

/// Written to every handle before a call, which must overwrite it.
const UNWRITTEN: u64 = 0xdead_beef_dead_beef;

/// A device that may create them.
pub fn device_options() -> DeviceOptions {
    DeviceOptions {
        dynamic_rendering: true,
        extensions: vec![ext::shader_object::NAME],
        switches: vec![(vk::StructureType::PHYSICAL_DEVICE_SHADER_OBJECT_FEATURES_EXT, vec![true])],
        ..DeviceOptions::default()
    }
}

/// One shader as a program asks for it.
#[derive(Clone, Debug)]
pub struct Shader {
    /// Its stage.
    pub stage: vk::ShaderStageFlags,
    /// The stages that may follow.
    pub next: vk::ShaderStageFlags,
    /// Linked to the others of the call that are.
    pub linked: bool,
    /// SPIR-V, or a binary.
    pub code: Code,
    /// The value of specialization constant 0.
    pub constant: Option<u32>,
}

/// The code of a shader.
#[derive(Clone, Debug)]
pub enum Code {
    /// SPIR-V.
    Spirv(Vec<u32>),
    /// What the driver has given out, at an address that it takes.
    Binary(Binary),
}

/// A driver's binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    words: Vec<u128>,
    length: usize,
}

impl Binary {
    /// A binary of these bytes.
    pub fn of(bytes: &[u8]) -> Binary {
        let word = |chunk: &[u8]| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            u128::from_ne_bytes(word)
        };
        Binary { words: bytes.chunks(16).map(word).collect(), length: bytes.len() }
    }

    /// Where it is, for a create info.
    pub fn as_ptr(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(16 * self.words.len());
        self.words.iter().for_each(|word| all.extend_from_slice(&word.to_ne_bytes()));
        all.truncate(self.length);
        all
    }
}

impl Shader {
    fn info<'a>(
        &'a self,
        sets: &'a [vk::DescriptorSetLayout],
        special: &'a vk::SpecializationInfo<'a>,
    ) -> vk::ShaderCreateInfoEXT<'a> {
        let flags = match self.linked {
            true => vk::ShaderCreateFlagsEXT::LINK_STAGE,
            false => vk::ShaderCreateFlagsEXT::empty(),
        };
        let (code_type, code_size, p_code) = match &self.code {
            Code::Spirv(words) => (vk::ShaderCodeTypeEXT::SPIRV, 4 * words.len(), words.as_ptr().cast()),
            Code::Binary(binary) => (vk::ShaderCodeTypeEXT::BINARY, binary.length, binary.as_ptr()),
        };
        let info = vk::ShaderCreateInfoEXT {
            flags,
            stage: self.stage,
            next_stage: self.next,
            code_type,
            code_size,
            p_code,
            ..Default::default()
        };
        let info = info.name(c"main").set_layouts(sets);
        if self.constant.is_some() { info.specialization_info(special) } else { info }
    }
}

/// vkCreateShadersEXT with every result as the driver gave it.
///
/// # Safety
/// The set layouts are live ones of this device, which enables the extension.
pub unsafe fn create(
    device: &Device,
    sets: &[vk::DescriptorSetLayout],
    shaders: &[Shader],
) -> (vk::Result, Vec<vk::ShaderEXT>) {
    // SAFETY: the caller's contract.
    unsafe { create_with(device, sets, shaders, None) }
}

/// [`create`] with an allocator.
///
/// # Safety
/// As [`create`].
pub unsafe fn create_with(
    device: &Device,
    sets: &[vk::DescriptorSetLayout],
    shaders: &[Shader],
    allocator: Option<&vk::AllocationCallbacks<'_>>,
) -> (vk::Result, Vec<vk::ShaderEXT>) {
    let commands = ext::shader_object::Device::new(&device.instance.raw, &device.raw);
    let entry = [vk::SpecializationMapEntry { constant_id: 0, offset: 0, size: 4 }];
    let values: Vec<[u8; 4]> = shaders.iter().map(|s| s.constant.unwrap_or(0).to_ne_bytes()).collect();
    let special: Vec<_> = values
        .iter()
        .map(|value| vk::SpecializationInfo::default().map_entries(&entry).data(value))
        .collect();
    let infos: Vec<_> = shaders.iter().zip(&special).map(|(s, special)| s.info(sets, special)).collect();
    let mut made = vec![vk::ShaderEXT::from_raw(UNWRITTEN); shaders.len()];
    // SAFETY: valid create infos, and room for as many handles.
    let result = unsafe {
        (commands.fp().create_shaders_ext)(
            device.raw.handle(),
            infos.len() as u32,
            infos.as_ptr(),
            allocator.map_or(ptr::null(), ptr::from_ref),
            made.as_mut_ptr(),
        )
    };
    assert!(
        made.iter().all(|shader| *shader != vk::ShaderEXT::from_raw(UNWRITTEN)),
        "a handle is not written"
    );
    (result, made)
}

/// A shader's binary.
///
/// # Safety
/// A live shader of this device.
pub unsafe fn binary(device: &Device, shader: vk::ShaderEXT) -> Binary {
    // SAFETY: the caller's contract.
    unsafe { try_binary(device, shader) }.unwrap()
}

/// A shader's binary, or what the driver says instead. There is no memory for one that is larger than any.
///
/// # Safety
/// A live shader of this device.
pub unsafe fn try_binary(device: &Device, shader: vk::ShaderEXT) -> Result<Binary, vk::Result> {
    let commands = ext::shader_object::Device::new(&device.instance.raw, &device.raw);
    let (get, device) = (commands.fp().get_shader_binary_data_ext, device.raw.handle());
    let mut length = 0;
    // SAFETY: a live shader; NULL asks for the length, and then there is room for as much.
    unsafe {
        get(device, shader, &mut length, ptr::null_mut()).result()?;
        if length > 1 << 30 {
            return Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY);
        }
        let mut words = vec![0_u128; length.div_ceil(16)];
        let room = length;
        match get(device, shader, &mut length, words.as_mut_ptr().cast()) {
            vk::Result::SUCCESS => Ok(Binary { words, length: length.min(room) }),
            other => Err(other),
        }
    }
}

/// Destroys shaders.
///
/// # Safety
/// Shaders of this device that nothing uses any more.
pub unsafe fn destroy(device: &Device, shaders: &[vk::ShaderEXT]) {
    // SAFETY: the caller's contract.
    unsafe { destroy_with(device, shaders, None) };
}

/// [`destroy`] with an allocator.
///
/// # Safety
/// As [`destroy`]; the shaders were created with this allocator.
pub unsafe fn destroy_with(
    device: &Device,
    shaders: &[vk::ShaderEXT],
    allocator: Option<&vk::AllocationCallbacks<'_>>,
) {
    let commands = ext::shader_object::Device::new(&device.instance.raw, &device.raw);
    for &shader in shaders {
        // SAFETY: the caller's contract.
        unsafe { commands.destroy_shader(shader, allocator) };
    }
}
