//! Medians and quartiles: statistics that hold on machines as noisy as these.

/// The value below which the fraction `part` (0 to 1) of `values` lies, interpolated between neighbours.
/// NaN for no values.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The median; NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// A median with its quartiles.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// A quarter of the values lies below this.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of the values lies above this.
    pub high: f64,
    /// How many values there were.
    pub count: usize,
}

impl Spread {
    /// Computed from `values`, in their unit.
    pub fn of(values: &[f64]) -> Self {
        Self {
            low: quantile(values, 0.25),
            median: median(values),
            high: quantile(values, 0.75),
            count: values.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[0.0, 10.0], 0.25), 2.5);
        assert!(median(&[]).is_nan());
    }
}
