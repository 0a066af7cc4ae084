//! Shader objects.

use ash::vk;
use vkstash_model::identifier::module_identity;
use vkstash_model::key;
use vkstash_model::recipe::{Bytes, Code, Extensions, Pipeline, Recipe, SCHEMA, Shaders, Stage};
use vkstash_model::record::Key;

use super::round_trip::Everything;
use crate::capture::InlineModules;
use crate::capture::shaders as capture;
use crate::capture::tests::helpers::Known;
use crate::rebuild::RebuildError;
use crate::rebuild::shaders::{Device, shaders};

const LAYOUT: Key = [9; 32];
const CODE: [u32; 2] = [0x0723_0203, 7];

/// A device with one layout and one module.
#[derive(Default)]
struct One(vk::PipelineLayoutCreateInfo<'static>);

fn identity() -> Key {
    let bytes: Vec<u8> = CODE.iter().flat_map(|word| word.to_ne_bytes()).collect();
    module_identity(vk::ShaderModuleCreateFlags::empty(), &bytes)
}

impl Device for One {
    fn code(&self, wanted: &Key) -> Option<&[u32]> {
        (*wanted == identity()).then_some(&CODE)
    }

    fn layout(&self, digest: &Key) -> Option<&vk::PipelineLayoutCreateInfo<'_>> {
        (*digest == LAYOUT).then_some(&self.0)
    }
}

fn stage<'a>(stage: vk::ShaderStageFlags, flags: vk::ShaderCreateFlagsEXT) -> Stage<'a> {
    Stage {
        flags: flags.as_raw(),
        stage: stage.as_raw(),
        code: Code::Module(identity()),
        entry_point: Bytes(b"main"),
        specialization: [(3, Bytes(&[1, 2, 3, 4]))].into_iter().collect(),
        mappings: Default::default(),
        extensions: Extensions::default(),
    }
}

fn linked<'a>() -> Shaders<'a> {
    let link = vk::ShaderCreateFlagsEXT::LINK_STAGE;
    let stages = [vk::ShaderStageFlags::VERTEX, vk::ShaderStageFlags::FRAGMENT];
    Shaders {
        stages: stages.into_iter().map(|of| stage(of, link)).collect(),
        next_stages: [vk::ShaderStageFlags::FRAGMENT.as_raw(), 0].into_iter().collect(),
        layout: LAYOUT,
    }
}

#[test]
fn what_was_rebuilt_is_captured_as_the_same_bytes() {
    let recipe = Recipe { schema: SCHEMA, pipeline: Pipeline::Shaders(linked()) };
    let one = One::default();
    let rebuilt = shaders(&linked(), &one).unwrap();
    let infos: Vec<&vk::ShaderCreateInfoEXT<'_>> = rebuilt.info().iter().collect();
    let (objects, mut inline) = (Everything::new(&Known::default()), InlineModules::new());
    // SAFETY: the create infos live as long as `rebuilt`.
    let again = unsafe { capture::shaders(&infos, LAYOUT, &objects, &mut inline) }.unwrap();
    let encoded = |recipe: &Recipe<'_>| {
        let mut bytes = Vec::new();
        key::encode(recipe, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(encoded(&again), encoded(&recipe));
    assert_eq!(inline[..], [identity(); 2]);
}

#[test]
fn what_no_program_can_have_linked_is_refused() {
    let error = |change: &dyn Fn(&mut Shaders<'_>)| {
        let mut recipe = linked();
        change(&mut recipe);
        shaders(&recipe, &One::default()).err()
    };
    let contradicts = |error| matches!(error, Some(RebuildError::Contradiction(_)));
    assert!(contradicts(error(&|recipe| recipe.stages[0].flags = 0)), "one of two is linked");
    assert!(contradicts(error(&|recipe| recipe.stages.swap(0, 1))), "in another order");
    assert!(contradicts(error(&|recipe| recipe.stages[1].stage = recipe.stages[0].stage)), "one stage twice");
    assert!(contradicts(error(&|recipe| recipe.stages[0].stage = 3)), "two stages in one");
    assert!(contradicts(error(&|recipe| recipe.next_stages.truncate(1))), "fewer next stages");
    assert!(contradicts(error(&|recipe| {
        recipe.stages.clear();
        recipe.next_stages.clear();
    })));
    assert_eq!(error(&|recipe| recipe.stages[0].flags = 1 << 11), Some(RebuildError::Flags(1 << 11)));
    let missing = |error| matches!(error, Some(RebuildError::Missing(..)));
    assert!(missing(error(&|recipe| recipe.layout = [1; 32])));
    assert!(missing(error(&|recipe| recipe.stages[1].code = Code::Module([1; 32]))));
}
