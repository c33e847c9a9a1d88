//! The colours of categories in a terminal: the nearest of 256 colours to those of the page.

/// The number of a category's colour; `None` if the name is no category.
pub fn category(name: &str) -> Option<u8> {
    Some(match name {
        "parameter" => 68,
        "buffer" => 29,
        "gradient" => 166,
        "optimizer state" => 215,
        "activation" => 117,
        "input" => 151,
        "temporary" => 183,
        "workspace" => 98,
        "communication" => 125,
        "KV cache" => 106,
        "before recording" => 60,
        "other" | "unknown" => 246,
        _ => return None,
    })
}

/// The colour of bars without a category.
pub const BAR: u8 = 68;
/// The colour of growth.
pub const GREW: u8 = 166;
/// The colour of a decrease.
pub const SHRANK: u8 = 36;

#[cfg(test)]
mod tests {
    use floodmark_trace::Category;

    use super::*;

    #[test]
    fn every_category_has_a_colour_of_its_own() {
        let mut colours: Vec<u8> =
            Category::ALL.iter().map(|one| category(one.name()).expect("it has one")).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Category::ALL.len());
        assert_eq!(category("model.py:3"), None);
    }
}
