//! The binaries that live shader objects were made of. RADV (Mesa 25.0.7) keeps a pointer to a binary for as long as
//! the shader lives, and vkGetShaderBinaryDataEXT reads there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::vk;

use super::by_handle::Objects;
use vkstash_host::memory;
use vkstash_model::budgets::SHADER_BINARIES;

/// Binaries, each at an address that is a multiple of 16 (VUID-VkShaderCreateInfoEXT-pCode-08492).
pub struct Binaries {
    words: Vec<u128>,
    /// Where each of them begins, in words, and how many bytes it has.
    places: Vec<(usize, usize)>,
}

impl Binaries {
    /// Copies them. None: there is no memory.
    pub fn copy(binaries: &[&[u8]]) -> Option<Binaries> {
        let mut words: Vec<u128> = memory::room(binaries.iter().map(|b| b.len().div_ceil(16)).sum())?;
        let mut places = memory::room(binaries.len())?;
        for binary in binaries {
            let at = words.len();
            places.push((at, binary.len()));
            // There is room for these words.
            words.resize(at + binary.len().div_ceil(16), 0);
            // SAFETY: the words behind `at` are at least as many bytes, and nobody else's.
            unsafe {
                let to = words[at..].as_mut_ptr().cast::<u8>();
                std::ptr::copy_nonoverlapping(binary.as_ptr(), to, binary.len());
            }
        }
        Some(Binaries { words, places })
    }

    /// Each of them, as a create info names it: where, and how many bytes.
    pub fn each(&self) -> impl Iterator<Item = (*const std::ffi::c_void, usize)> + '_ {
        self.places.iter().map(|&(at, length)| (self.words[at..].as_ptr().cast(), length))
    }

    fn bytes(&self) -> usize {
        16 * self.words.len()
    }
}

/// Those of a device's live shaders.
#[derive(Default)]
pub struct ShaderCode {
    of: Objects<Arc<Binaries>>,
    bytes: AtomicUsize,
}

impl ShaderCode {
    /// Whether there is room for these. What there is no room for is not served.
    pub fn has_room(&self, binaries: &Binaries) -> bool {
        self.bytes.load(Ordering::Relaxed) + binaries.bytes() <= SHADER_BINARIES
    }

    /// Keeps the binaries that these shaders were made of.
    pub fn keep(&self, shaders: &[vk::ShaderEXT], binaries: Binaries) {
        let share = binaries.bytes() / shaders.len().max(1);
        let binaries = Arc::new(binaries);
        for shader in shaders {
            self.bytes.fetch_add(share, Ordering::Relaxed);
            self.of.insert(*shader, binaries.clone());
        }
    }

    /// The program destroys a shader. What it was made of must outlive the driver's call.
    pub fn forget(&self, shader: vk::ShaderEXT) -> Option<Arc<Binaries>> {
        let kept = self.of.read(shader, Arc::clone)?;
        self.of.remove(shader);
        let share = kept.bytes() / kept.places.len().max(1);
        self.bytes.fetch_sub(share, Ordering::Relaxed);
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle as _;

    #[test]
    fn each_binary_is_aligned_and_whole() {
        let given = [&[1_u8; 17][..], &[], &[2; 16], &[3; 5]];
        let copied = Binaries::copy(&given).unwrap();
        for ((at, length), binary) in copied.each().zip(given) {
            assert_eq!((at as usize % 16, length), (0, binary.len()));
            // SAFETY: a binary of `copied`, which lives.
            assert_eq!(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), length) }, binary);
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_given_back() {
        let code = ShaderCode::default();
        let large = vec![0; SHADER_BINARIES / 2];
        let of = |number| vk::ShaderEXT::from_raw(number);
        let binaries = || Binaries::copy(&[&large, &[1]]).unwrap();
        assert!(code.has_room(&binaries()));
        code.keep(&[of(1), of(2)], binaries());
        assert!(!code.has_room(&binaries()));
        assert!(code.forget(of(1)).is_some() && code.forget(of(1)).is_none());
        assert!(code.forget(of(2)).is_some());
        assert_eq!(code.bytes.load(Ordering::Relaxed), 0);
    }
}
