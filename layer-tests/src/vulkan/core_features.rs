//! The features of Vulkan 1.0 to 1.3, by number.

use std::mem::offset_of;

use ash::vk;

use super::Instance;

/// The features of Vulkan 1.0 to 1.3 in the order of their structures.
#[derive(Clone, Copy, Default)]
pub struct CoreFeatures {
    pub(super) ten: vk::PhysicalDeviceFeatures,
    pub(super) eleven: vk::PhysicalDeviceVulkan11Features<'static>,
    pub(super) twelve: vk::PhysicalDeviceVulkan12Features<'static>,
    pub(super) thirteen: vk::PhysicalDeviceVulkan13Features<'static>,
}

impl CoreFeatures {
    /// How many there are.
    pub const COUNT: usize = 55 + 12 + 47 + 15;

    fn values(&mut self) -> Vec<&mut vk::Bool32> {
        fn within<T>(structure: &mut T, offset: usize, count: usize) -> &mut [vk::Bool32] {
            assert!(offset + count * size_of::<vk::Bool32>() <= size_of::<T>());
            // SAFETY: within the structure, whose features are Bool32 members one after the other, this many.
            unsafe {
                let first = std::ptr::from_mut(structure).cast::<u8>().add(offset);
                std::slice::from_raw_parts_mut(first.cast(), count)
            }
        }
        let eleven = offset_of!(vk::PhysicalDeviceVulkan11Features<'_>, storage_buffer16_bit_access);
        let twelve = offset_of!(vk::PhysicalDeviceVulkan12Features<'_>, sampler_mirror_clamp_to_edge);
        let thirteen = offset_of!(vk::PhysicalDeviceVulkan13Features<'_>, robust_image_access);
        let all = [
            within(&mut self.ten, 0, 55),
            within(&mut self.eleven, eleven, 12),
            within(&mut self.twelve, twelve, 47),
            within(&mut self.thirteen, thirteen, 15),
        ];
        all.into_iter().flatten().collect()
    }

    /// What a device supports.
    pub fn of(instance: &Instance, physical: vk::PhysicalDevice) -> CoreFeatures {
        let mut found = CoreFeatures::default();
        let (mut eleven, mut twelve, mut thirteen) = (found.eleven, found.twelve, found.thirteen);
        let mut two = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut eleven)
            .push_next(&mut twelve)
            .push_next(&mut thirteen);
        // SAFETY: a live physical device and a valid chain.
        unsafe { instance.raw.get_physical_device_features2(physical, &mut two) };
        found.ten = two.features;
        let apart = std::ptr::null_mut();
        (eleven.p_next, twelve.p_next, thirteen.p_next) = (apart, apart, apart);
        (found.eleven, found.twelve, found.thirteen) = (eleven, twelve, thirteen);
        found
    }

    /// The numbers of those that are enabled.
    pub fn enabled(mut self) -> Vec<usize> {
        self.values()
            .iter()
            .enumerate()
            .filter(|(_, value)| ***value != 0)
            .map(|(number, _)| number)
            .collect()
    }

    pub(super) fn enable(&mut self, numbers: &[usize]) {
        let mut values = self.values();
        for &number in numbers {
            *values[number] = vk::TRUE;
        }
    }
}
