import MoraineEngine

/// Contents in the order of their places. A change takes O(log n), and shares what it does not
/// change with the tree before it.
///
/// The tree is a treap: it is ordered by place, and a node's priority is above those of its
/// children. (Seidel, Aragon: "Randomized search trees", Algorithmica 1996.) It knows nothing of
/// models, so its code is compiled once and not for each type of model.
struct PlaceTree: Sendable {
  typealias Content = AnyObject & Sendable

  private var root: Node?

  /// One content. A node and all nodes below it never change.
  private final class Node: Sendable {
    let place: QueryPlace
    let content: any Content
    let priority: UInt64
    let left: Node?
    let right: Node?
    let count: Int

    init(
      _ place: QueryPlace, _ content: any Content, _ priority: UInt64, _ left: Node?, _ right: Node?
    ) {
      (self.place, self.content, self.priority) = (place, content, priority)
      (self.left, self.right) = (left, right)
      count = 1 + (left?.count ?? 0) + (right?.count ?? 0)
    }

    func with(left: Node?, right: Node?) -> Node { Node(place, content, priority, left, right) }
  }

  var count: Int { root?.count ?? 0 }

  /// Returns the content at a position. Complexity: O(log n).
  subscript(position: Int) -> any Content {
    precondition(position >= 0 && position < count, "a position outside of a tree")
    var (node, offset) = (root, position)
    while let current = node {
      let before = current.left?.count ?? 0
      if offset == before { return current.content }
      if offset < before {
        node = current.left
      } else {
        offset -= before + 1
        node = current.right
      }
    }
    fatalError("a tree has fewer nodes than it counts")
  }

  /// The place of the last content; nil when there is none.
  var lastPlace: QueryPlace? {
    var node = root
    while let right = node?.right { node = right }
    return node?.place
  }

  /// Returns the number of contents whose place comes before a place. Complexity: O(log n).
  func offset(of place: QueryPlace) -> Int {
    var (node, offset) = (root, 0)
    while let current = node {
      if current.place < place {
        offset += 1 + (current.left?.count ?? 0)
        node = current.right
      } else {
        node = current.left
      }
    }
    return offset
  }

  /// Inserts a content at a place that is free. Complexity: O(log n).
  mutating func insert(_ content: any Content, at place: QueryPlace) {
    let new = Node(place, content, Self.priority(of: place), nil, nil)
    root = Self.inserted(new, into: root)
  }

  /// Removes the content at a place. Complexity: O(log n).
  mutating func remove(at place: QueryPlace) { root = Self.removed(place, from: root) }

  /// Removes the contents after the first `count`. Complexity: O(log n).
  mutating func trim(to count: Int) { root = Self.first(count, of: root) }

  /// Returns the places from an offset on. Complexity: O(places + log n).
  func places(from offset: Int) -> [QueryPlace] {
    var places: [QueryPlace] = []
    func collect(_ node: Node?, _ skipped: Int) {
      guard let node, skipped < node.count else { return }
      let before = node.left?.count ?? 0
      collect(node.left, skipped)
      if skipped <= before { places.append(node.place) }
      collect(node.right, max(0, skipped - before - 1))
    }
    collect(root, offset)
    return places
  }

  private static func inserted(_ new: Node, into node: Node?) -> Node {
    guard let node else { return new }
    if node.priority < new.priority {
      let (before, after) = split(node, at: new.place)
      return new.with(left: before, right: after)
    }
    return new.place < node.place
      ? node.with(left: inserted(new, into: node.left), right: node.right)
      : node.with(left: node.left, right: inserted(new, into: node.right))
  }

  private static func removed(_ place: QueryPlace, from node: Node?) -> Node? {
    guard let node else { return nil }
    if place < node.place {
      return node.with(left: removed(place, from: node.left), right: node.right)
    }
    if node.place < place {
      return node.with(left: node.left, right: removed(place, from: node.right))
    }
    return joined(node.left, node.right)
  }

  /// Returns the nodes before a place, and the others.
  private static func split(
    _ node: Node?, at place: QueryPlace
  ) -> (before: Node?, rest: Node?) {
    guard let node else { return (nil, nil) }
    if node.place < place {
      let (before, rest) = split(node.right, at: place)
      return (node.with(left: node.left, right: before), rest)
    }
    let (before, rest) = split(node.left, at: place)
    return (before, node.with(left: rest, right: node.right))
  }

  /// Returns the nodes of two trees, the second of which comes after the first.
  private static func joined(_ one: Node?, _ other: Node?) -> Node? {
    guard let one else { return other }
    guard let other else { return one }
    if one.priority >= other.priority {
      return one.with(left: one.left, right: joined(one.right, other))
    }
    return other.with(left: joined(one, other.left), right: other.right)
  }

  private static func first(_ count: Int, of node: Node?) -> Node? {
    guard let node, count > 0 else { return nil }
    if node.count <= count { return node }
    let before = node.left?.count ?? 0
    if count <= before { return first(count, of: node.left) }
    return node.with(left: node.left, right: first(count - before - 1, of: node.right))
  }

  /// Returns a number that is as good as random, and the same for the same key.
  private static func priority(of place: QueryPlace) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in place.key.bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    // The last step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
    // generators", 2014) spreads keys that differ in one bit.
    hash = (hash ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ (hash >> 27)) &* 0x94D0_49BB_1331_11EB
    return hash ^ (hash >> 31)
  }
}
