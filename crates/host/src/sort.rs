//! Sorting that adds little to the library. The standard library's sorts are compiled for each type and each order, 4
//! to 10 KB a time, which made up a twentieth of the layer's library. Here only the comparison and the exchange are.

use std::cmp::Ordering;
use std::ops::Range;

/// For so few elements insertion is as fast as anything else. The lists of a create info are shorter.
const FEW: usize = 20;

/// Sorts without memory of its own. Equal elements may change places.
pub fn by<T>(rows: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    if rows.len() > FEW {
        let depth = 2 * rows.len().ilog2();
        return quick_sort(0..rows.len(), depth, &mut Slice { rows, compare });
    }
    for end in 1..rows.len() {
        let mut at = end;
        while at > 0 && compare(&rows[at - 1], &rows[at]) == Ordering::Greater {
            rows.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// [`by`] the order of a key.
pub fn by_key<T, K: Ord>(rows: &mut [T], key: impl Fn(&T) -> K) {
    by(rows, |one, other| key(one).cmp(&key(other)));
}

/// [`by`] the elements' own order.
pub fn sort<T: Ord>(rows: &mut [T]) {
    by(rows, T::cmp);
}

/// What the sort needs to know of the elements.
trait Elements {
    fn is_less(&mut self, one: usize, other: usize) -> bool;
    fn swap(&mut self, one: usize, other: usize);
}

struct Slice<'a, T, F> {
    rows: &'a mut [T],
    compare: F,
}

impl<T, F: FnMut(&T, &T) -> Ordering> Elements for Slice<'_, T, F> {
    fn is_less(&mut self, one: usize, other: usize) -> bool {
        (self.compare)(&self.rows[one], &self.rows[other]) == Ordering::Less
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.rows.swap(one, other);
    }
}

/// Sorts a range. `depth`: so often it may be divided before the order is taken for a bad one.
fn quick_sort(mut range: Range<usize>, mut depth: u32, elements: &mut dyn Elements) {
    while range.len() > FEW {
        if depth == 0 {
            return heap_sort(range, elements);
        }
        depth -= 1;
        let pivot = divide(&range, elements);
        let (before, after) = (range.start..pivot, pivot + 1..range.end);
        let (smaller, larger) = if before.len() < after.len() { (before, after) } else { (after, before) };
        quick_sort(smaller, depth, elements);
        range = larger;
    }
    for end in range.start + 1..range.end {
        let mut at = end;
        while at > range.start && elements.is_less(at, at - 1) {
            elements.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Puts the median of three elements into its place, with nothing larger before it and nothing smaller after it.
fn divide(range: &Range<usize>, elements: &mut dyn Elements) -> usize {
    let (first, middle, last) = (range.start, range.start + range.len() / 2, range.end - 1);
    if elements.is_less(first, middle) {
        elements.swap(first, middle);
    }
    // The smaller of the two is in the middle.
    if elements.is_less(last, first) {
        elements.swap(first, last);
        if elements.is_less(first, middle) {
            elements.swap(first, middle);
        }
    }
    // An order that contradicts itself must not lead out of the range.
    let (mut low, mut high) = (first, range.end);
    loop {
        low += 1;
        while low < last && elements.is_less(low, first) {
            low += 1;
        }
        high -= 1;
        while high > first && elements.is_less(first, high) {
            high -= 1;
        }
        if low >= high {
            break;
        }
        elements.swap(low, high);
    }
    elements.swap(first, high);
    high
}

/// At most 2 n log n comparisons, whatever the order was.
fn heap_sort(range: Range<usize>, elements: &mut dyn Elements) {
    let Range { start, end } = range;
    for root in (0..range.len() / 2).rev() {
        sift_down(start, root, end, elements);
    }
    for end in (start + 1..end).rev() {
        elements.swap(start, end);
        sift_down(start, 0, end, elements);
    }
}

/// Makes a heap of `root` and the heaps below it, which are counted from `start`.
fn sift_down(start: usize, mut root: usize, end: usize, elements: &mut dyn Elements) {
    loop {
        let mut child = 2 * root + 1;
        if start + child >= end {
            return;
        }
        if start + child + 1 < end && elements.is_less(start + child, start + child + 1) {
            child += 1;
        }
        if !elements.is_less(start + root, start + child) {
            return;
        }
        elements.swap(start + root, start + child);
        root = child;
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::{Ordering, Slice, by, by_key, heap_sort, sort};

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(rows: Vec<(u8, u32)>) {
            let mut expected = rows.clone();
            expected.sort();
            let mut sorted = rows.clone();
            sort(&mut sorted);
            prop_assert_eq!(&sorted, &expected);
            by(&mut sorted, |one, other| other.cmp(one));
            expected.reverse();
            prop_assert_eq!(&sorted, &expected);
            // By a part of each element: the others are the same ones.
            by_key(&mut sorted, |row| Reverse(row.0));
            prop_assert!(sorted.is_sorted_by_key(|row| Reverse(row.0)));
            sorted.sort_by_key(|row| Reverse(*row));
            prop_assert_eq!(&sorted, &expected);
        }
    }

    #[test]
    fn lists_of_every_length_are_sorted() {
        for length in 0..300_u32 {
            // Spread, in order, in the opposite order, and equal ones.
            let makes: [fn(u32, u32) -> u32; 4] =
                [|at, length| at * 37 % length, |at, _| at, |at, length| length - at, |at, _| at % 3];
            for make in makes {
                let mut rows: Vec<u32> = (0..length).map(|at| make(at, length)).collect();
                let mut expected = rows.clone();
                expected.sort();
                sort(&mut rows);
                assert_eq!(rows, expected);
                by_key(&mut rows, |row| Reverse(*row));
                expected.reverse();
                assert_eq!(rows, expected);
            }
        }
    }

    /// What a bad order for the division ends with.
    #[test]
    fn a_heap_sorts_a_range_and_touches_no_other() {
        for length in 2..100_u32 {
            let mut rows: Vec<u32> = (0..length).map(|at| at * 37 % length).collect();
            let before = rows.clone();
            let compare = u32::cmp;
            let range = 1..rows.len() - 1;
            heap_sort(range.clone(), &mut Slice { rows: &mut rows, compare });
            let mut expected = before;
            expected[range].sort();
            assert_eq!(rows, expected);
        }
    }

    #[test]
    fn an_order_that_contradicts_itself_ends() {
        for answer in [Ordering::Less, Ordering::Greater, Ordering::Equal] {
            let mut rows: Vec<u32> = (0..1000).collect();
            by(&mut rows, |_, _| answer);
            sort(&mut rows);
            assert!(rows.into_iter().eq(0..1000), "each is there once");
        }
    }
}
