//! Entry points that `build.rs` generates: names of `symbols/` that no file here defines.

include!(concat!(env!("OUT_DIR"), "/entry_points.rs"));

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    /// This binary links only if every name that is marked `src` is defined.
    #[test]
    fn every_name_that_is_marked_as_ours_is_a_function_of_its_own() {
        let functions: HashSet<usize> =
            super::defined::DEFINED.iter().map(|&(_, function)| function as usize).collect();
        let refused: HashSet<&str> = super::REFUSED.into_iter().collect();
        assert!(functions.len() > 400, "{} functions", functions.len());
        assert!(super::defined::DEFINED.iter().all(|(name, _)| !refused.contains(name)));
    }
}
