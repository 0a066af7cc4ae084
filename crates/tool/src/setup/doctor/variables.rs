//! The environment: what switches the layer, and the drivers' own caches, on and off.

use std::env;

use super::finding::Finding;
use crate::layer::manifest::LAYER_NAME;

pub(super) fn examine(findings: &mut Vec<Finding>) {
    examine_with(&|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()), findings);
}

fn examine_with(variable: &dyn Fn(&str) -> Option<String>, findings: &mut Vec<Finding>) {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    // The layer is off if this variable exists, also if it is empty.
    if variable("VKSTASH_DISABLE").is_some() {
        findings.push(Finding::wrong(
            "VKSTASH_DISABLE is set, which switches the layer off",
            "unset VKSTASH_DISABLE",
        ));
    }
    let named =
        set("VK_INSTANCE_LAYERS").is_some_and(|value| value.split(':').any(|name| name == LAYER_NAME));
    match set("VKSTASH").as_deref() {
        Some("1") => findings.push(Finding::good("VKSTASH=1 is set here")),
        _ if named => findings.push(Finding::good("VK_INSTANCE_LAYERS names the layer")),
        Some(other) => findings.push(Finding::wrong(
            format!("VKSTASH is {other:?}: the loader enables the layer for the value 1 only"),
            "set VKSTASH=1",
        )),
        None => findings.push(Finding::note(
            "VKSTASH is not set here, so programs that are started from here run without the layer",
            "use `VKSTASH=1 program` (Steam: `VKSTASH=1 %command%`) or `vkstash run -- program`",
        )),
    }
    if let Some(patterns) = set("VK_LOADER_LAYERS_DISABLE") {
        let disables =
            |pattern: &str| matches!(pattern, "~all~" | "~implicit~") || matches_name(pattern, LAYER_NAME);
        let allowed = set("VK_LOADER_LAYERS_ALLOW")
            .is_some_and(|allowed| allowed.split(',').any(|pattern| matches_name(pattern, LAYER_NAME)));
        if patterns.split(',').any(disables) && !allowed {
            findings.push(Finding::wrong(
                format!("VK_LOADER_LAYERS_DISABLE={patterns} switches the layer off"),
                format!("unset it, or set VK_LOADER_LAYERS_ALLOW={LAYER_NAME}"),
            ));
        }
    }
    for (name, off) in [
        ("MESA_SHADER_CACHE_DISABLE", &["1", "true", "yes"] as &[&str]),
        ("MESA_GLSL_CACHE_DISABLE", &["1", "true", "yes"]),
        ("__GL_SHADER_DISK_CACHE", &["0"]),
    ] {
        if let Some(value) = set(name).filter(|value| off.contains(&value.to_lowercase().as_str())) {
            findings.push(Finding::note(
                format!("{name}={value} switches the driver's own cache off; the stash works without it"),
                format!("unset {name} if nobody meant that"),
            ));
        }
    }
}

/// The loader's patterns: a name with a star at one end or both, whatever the case.
fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn wrong(variables: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        examine_with(&get, &mut findings);
        findings.retain(|finding| finding.level == Level::Wrong);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn what_switches_the_layer_off_is_wrong() {
        assert!(wrong(&[]).is_empty());
        assert!(wrong(&[("VKSTASH", "1")]).is_empty());
        assert_eq!(wrong(&[("VKSTASH", "yes")]).len(), 1);
        assert!(
            wrong(&[("VKSTASH", "0"), ("VK_INSTANCE_LAYERS", &format!("VK_LAYER_x:{LAYER_NAME}"))])
                .is_empty()
        );
        assert_eq!(wrong(&[("VKSTASH_DISABLE", "")]).len(), 1);
        for pattern in ["~all~", "~implicit~", "a,*vkstash*", "VK_LAYER_V*", "*_PIPELINE_CACHE", "*"] {
            let disabled = [("VK_LOADER_LAYERS_DISABLE", pattern)];
            assert_eq!(wrong(&disabled).len(), 1, "{pattern}");
            assert!(wrong(&[disabled[0], ("VK_LOADER_LAYERS_ALLOW", "*VKSTASH*")]).is_empty(), "{pattern}");
        }
        for pattern in ["~explicit~", "VK_LAYER_other", "*MESA*", "vkstash"] {
            assert!(wrong(&[("VK_LOADER_LAYERS_DISABLE", pattern)]).is_empty(), "{pattern}");
        }
    }
}
