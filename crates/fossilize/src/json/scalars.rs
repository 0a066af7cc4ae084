//! Numbers, enumerations, flags and handles. Enumerations and flags are numbers, and handles are hashes.

use ash::vk::{self, Handle};

use super::document::Value;
use super::error::{ParseError, Problem, WriteError};
use super::form::Json;
use super::reader::Reader;
#[cfg(test)]
use super::samples::Samples;
use super::writer::Writer;

fn refused<T>(problem: Problem) -> Result<T, ParseError> {
    Err(ParseError::new(problem))
}

/// A whole number of a type.
fn whole<T: TryFrom<u64> + TryFrom<i64>>(value: &Value) -> Result<T, ParseError> {
    let problem = |number| if number { Problem::Range } else { Problem::Kind("a number") };
    value.whole().map_err(|number| ParseError::new(problem(number)))
}

/// A hash: up to 16 hexadecimal digits.
pub fn hash(text: &str) -> Result<u64, ParseError> {
    // The standard library would allow a sign.
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return refused(Problem::Kind("a hash"));
    }
    u64::from_str_radix(text, 16).or_else(|_| refused(Problem::Range))
}

macro_rules! json {
    ($type:ty, $read:expr, $write:expr, $sample:expr) => {
        impl Json for $type {
            fn read(value: &Value, _: &mut Reader) -> Result<Self, ParseError> {
                let read: fn(&Value) -> Result<Self, ParseError> = $read;
                read(value)
            }

            unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
                let write: fn(Self, &mut Writer) -> Result<(), WriteError> = $write;
                write(*self, writer)
            }

            #[cfg(test)]
            fn sample(samples: &mut Samples) -> Self {
                let sample: fn(&mut Samples) -> Self = $sample;
                sample(samples)
            }
        }
    };
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        json!(
            $type,
            whole,
            |number, writer| {
                writer.raw(number);
                Ok(())
            },
            |samples| samples.word() as $type
        );
    )* };
}

numbers! { u16 u32 i32 u64 usize }

json!(
    f32,
    |value| {
        let Some(number) = value.float() else { return refused(Problem::Kind("a number")) };
        let number = number as f32;
        if number.is_finite() { Ok(number) } else { refused(Problem::Range) }
    },
    |number, writer| {
        // As Fossilize does: the double that the number is, so that reading gives it back exactly.
        let number = serde_json::Number::from_f64(f64::from(number)).ok_or(WriteError::NotFinite)?;
        writer.raw(number);
        Ok(())
    },
    |samples| {
        let number = f32::from_bits(samples.word() as u32);
        if number.is_finite() { number } else { -0.0 }
    }
);

/// Fossilize reads them as unsigned numbers of 32 bits.
macro_rules! enumerations {
    ($($type:ident)*) => { $(
        json!(
            vk::$type,
            |value| Ok(vk::$type::from_raw(whole::<u32>(value)? as i32)),
            |value, writer| {
                writer.raw(value.as_raw() as u32);
                Ok(())
            },
            |samples| vk::$type::from_raw(samples.word() as i32 & i32::MAX)
        );
    )* };
}

macro_rules! flags {
    ($number:ty: $($type:ident)*) => { $(
        json!(
            vk::$type,
            |value| Ok(vk::$type::from_raw(whole::<$number>(value)?)),
            |value, writer| {
                writer.raw(value.as_raw());
                Ok(())
            },
            |samples| vk::$type::from_raw(samples.word() as $number)
        );
    )* };
}

macro_rules! handles {
    ($($type:ident)*) => { $(
        json!(
            vk::$type,
            |value| match value.text() {
                Some(text) => Ok(vk::$type::from_raw(hash(text)?)),
                None => refused(Problem::Kind("a hash")),
            },
            |value, writer| {
                writer.hash(value.as_raw());
                Ok(())
            },
            |samples| vk::$type::from_raw(samples.word() | 1)
        );
    )* };
}

enumerations! {
    AttachmentLoadOp AttachmentStoreOp BlendFactor BlendOp BlendOverlapEXT BorderColor ChromaLocation CompareOp
    ComponentSwizzle ConservativeRasterizationModeEXT DepthBiasRepresentationEXT DescriptorType DiscardRectangleModeEXT
    DynamicState Filter Format FragmentShadingRateCombinerOpKHR FrontFace ImageLayout LineRasterizationModeKHR LogicOp
    PipelineBindPoint PipelineRobustnessBufferBehaviorEXT PipelineRobustnessImageBehaviorEXT PolygonMode
    PrimitiveTopology ProvokingVertexModeEXT RayTracingShaderGroupTypeKHR SamplerAddressMode SamplerMipmapMode
    SamplerReductionMode SamplerYcbcrModelConversion SamplerYcbcrRange StencilOp TessellationDomainOrigin
    VertexInputRate
}

flags! { u32:
    AccessFlags AttachmentDescriptionFlags ColorComponentFlags CullModeFlags DependencyFlags DescriptorBindingFlags
    DescriptorSetLayoutCreateFlags GraphicsPipelineLibraryFlagsEXT ImageAspectFlags PipelineColorBlendStateCreateFlags
    PipelineCreateFlags PipelineDepthStencilStateCreateFlags PipelineDiscardRectangleStateCreateFlagsEXT
    PipelineDynamicStateCreateFlags PipelineInputAssemblyStateCreateFlags PipelineLayoutCreateFlags
    PipelineMultisampleStateCreateFlags PipelineRasterizationConservativeStateCreateFlagsEXT
    PipelineRasterizationDepthClipStateCreateFlagsEXT PipelineRasterizationStateCreateFlags
    PipelineRasterizationStateStreamCreateFlagsEXT PipelineShaderStageCreateFlags PipelineStageFlags
    PipelineTessellationStateCreateFlags PipelineVertexInputStateCreateFlags PipelineViewportStateCreateFlags
    RenderPassCreateFlags ResolveModeFlags SampleCountFlags SamplerCreateFlags ShaderStageFlags
    SubpassDescriptionFlags
}

flags! { u64: AccessFlags2 PipelineCreateFlags2KHR PipelineStageFlags2 }

handles! { DescriptorSetLayout Pipeline PipelineLayout RenderPass Sampler ShaderModule }

impl<T: Json, const N: usize> Json for [T; N] {
    fn read(value: &Value, reader: &mut Reader) -> Result<Self, ParseError> {
        let Value::Array(array) = value else { return refused(Problem::Kind("an array")) };
        let mut elements = Vec::with_capacity(N);
        for (index, element) in array.iter().enumerate().take(N) {
            elements.push(T::read(element, reader).map_err(|error| error.inside(&index.to_string()))?);
        }
        let length = Problem::Length { found: array.len() as u64, expected: N as u64 };
        if array.len() != N {
            return refused(length);
        }
        elements.try_into().or_else(|_| refused(length))
    }

    unsafe fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
        writer.open('[');
        for element in self {
            writer.element();
            // SAFETY: an element's pointers are as the caller promised for the whole array.
            unsafe { element.write(writer)? };
        }
        writer.close(']');
        Ok(())
    }

    #[cfg(test)]
    fn sample(samples: &mut Samples) -> Self {
        std::array::from_fn(|_| T::sample(samples))
    }
}
