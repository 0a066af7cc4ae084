//! Devices with a driver of Mesa, and the work that is left for them.

use std::path::Path;

use super::super::plan::{Group, Plan};
use super::{Device, MesaError, Private};
use crate::drivers::caches::on_disk;
use crate::reports::names::driver_version;
use crate::term::units::plain;

/// Leaves work for drivers of Mesa only, says for which devices, and gives the recipes to the workers.
pub(crate) fn prepare(plan: &mut Plan, private: &Private, root: &Path) -> Result<Vec<Device>, MesaError> {
    let devices = restrict(plan)?;
    let folders: Vec<_> = plan.applications.iter().map(|planned| planned.name.folder.clone()).collect();
    private.take(root, &folders)?;
    Ok(devices)
}

fn restrict(plan: &mut Plan) -> Result<Vec<Device>, MesaError> {
    if plan.applications.iter().all(|planned| planned.recipes == 0) {
        return Err(MesaError::NoRecipes);
    }
    let is_of_mesa = |group: &Group| on_disk::vendor_of(group.header.driver_id) == Some("Mesa");
    let (mut devices, mut others): (Vec<Device>, Vec<String>) = (Vec::new(), Vec::new());
    for group in &plan.groups {
        let name = plain(&group.device_name);
        if !is_of_mesa(group) {
            let problem = format!("{name} is left out: it has no driver of Mesa");
            let problems = &mut plan.applications[group.application].problems;
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            if !others.contains(&name) {
                others.push(name);
            }
        } else if devices.iter().all(|known| known.index != group.device) {
            let version = driver_version(group.header.driver_id, group.header.driver_version);
            devices.push(Device { index: group.device, name, version });
        }
    }
    if devices.is_empty() && !others.is_empty() {
        return Err(MesaError::NotMesa(others.join(", ")));
    }
    plan.groups.retain(is_of_mesa);
    // What is there was made for the check: here everything is made, and nothing is checked.
    plan.groups.iter_mut().for_each(|group| group.checks.clear());
    Ok(devices)
}
