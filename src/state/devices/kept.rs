//! Rules of what is recorded and served on a device.

use super::decided::IdentifierMode;
use super::device::Device;
use crate::state::caches::pipeline_class::PipelineClass;
use crate::state::process::policy::CacheHabit;
use crate::state::process::switches::{self, CacheKinds};
use vkstash_host::guard::tls_destroyed;
use vkstash_model::payload::ShaderBinaries;

impl Device {
    /// Whether artifacts of this driver are worth anything. Where not, the layer stands aside.
    pub fn keeps_artifacts(&self) -> bool {
        self.policy.artifacts
            && !switches::is_off(CacheKinds::COMPILATIONS)
            && !tls_destroyed()
            && self.caches_hold(PipelineClass::Complete)
            && self.table.create_pipeline_cache.is_some()
            && self.table.destroy_pipeline_cache.is_some()
            && self.table.get_pipeline_cache_data.is_some()
    }

    /// Whether the recipe of a pipeline that leaves no artifact is recorded, too: before the program asks for it again,
    /// it may be made in the background.
    pub fn wants_recipes(&self) -> bool {
        self.instance.config.parks
            && !self.caches.incremental
            && !tls_destroyed()
            && !self.settings_forbid_work()
    }

    /// Whether the settings of the stash forbid background work, as far as it is open and they are read. The
    /// environment comes before them.
    fn settings_forbid_work(&self) -> bool {
        if !self.instance.config.asks_settings {
            return false;
        }
        let stash = self.session.get().and_then(|session| session.stash());
        stash.and_then(|stash| stash.background_mode_at_opening()).is_some_and(|mode| !mode.allows_work())
    }

    /// Whether recipes are recorded although this driver gives no artifacts, because its caches are known to keep
    /// nothing. While that is not known, this is false.
    pub fn records_recipes_alone(&self) -> bool {
        let holds = self.policy.artifacts && self.caches_hold(PipelineClass::Complete);
        !holds && self.wants_recipes()
    }

    /// Whether calls have to be understood: for recipes, or because the layer answers for what the driver lacks.
    pub fn describes(&self) -> bool {
        let answers =
            self.decided.identifiers == IdentifierMode::Emulated || self.physical.emulates_cache_control;
        self.keeps_artifacts()
            || (answers && !tls_destroyed())
            || self.records_recipes_alone()
            || self.kept_shaders().is_some()
    }

    /// The binaries of shader objects that the driver takes, where they are recorded and served.
    pub fn kept_shaders(&self) -> Option<&ShaderBinaries> {
        let commands = &self.table;
        let keeps = !switches::is_off(CacheKinds::COMPILATIONS)
            && !tls_destroyed()
            && commands.get_shader_binary_data.is_some()
            && commands.destroy_shader.is_some();
        self.decided.shader_binaries.as_ref().filter(|_| keeps)
    }

    /// Whether the stash keeps the code of modules.
    pub fn keeps_modules(&self) -> bool {
        !switches::is_off(CacheKinds::CONVERSIONS) && (self.keeps_artifacts() || self.records_recipes_alone())
    }

    /// Whether the driver's caches hold pipelines of this class, as far as that is known.
    pub fn caches_hold(&self, class: PipelineClass) -> bool {
        self.caches.probe.is_worth_reading(class)
    }

    /// Whether artifacts of this class can be recorded: the driver's caches hold them, and there is a stash.
    pub fn records_artifacts(&self, class: PipelineClass) -> bool {
        self.keeps_artifacts() && self.caches_hold(class) && self.stored().is_some()
    }

    /// Whether the driver is asked before the stash for a pipeline that the program requests with this habit.
    pub fn asks_driver_first(&self, habit: CacheHabit) -> bool {
        self.policy.asks_driver_first(self.instance.config.ask_first, habit)
    }
}
