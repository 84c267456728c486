/// The models of a query at one moment, in its order.
///
/// The collection is a value. A later state of the same query shares most of its memory, so keeping
/// several states is cheap. Access to a position takes O(log n).
public struct QueryModels<Model: Sendable>: RandomAccessCollection, Sendable {
  private var root: Node?
  /// The models of a list without a query; nil with one.
  private var list: [Model]?

  init() {}

  /// Creates the collection of a list that no query keeps.
  init(_ list: [Model]) { self.list = list }

  public var startIndex: Int { 0 }
  public var endIndex: Int { list?.count ?? root?.count ?? 0 }

  public subscript(position: Int) -> Model {
    precondition(indices.contains(position), "a position outside of the models")
    if let list { return list[position] }
    var (node, offset) = (root, position)
    while let current = node {
      let before = current.left?.count ?? 0
      if offset == before { return current.model }
      if offset < before {
        node = current.left
      } else {
        offset -= before + 1
        node = current.right
      }
    }
    fatalError("a tree has fewer models than it counts")
  }

  /// One model. A node and all nodes below it never change.
  ///
  /// The tree is a treap: it is ordered by place, and a node's priority is above those of its
  /// children. (Seidel, Aragon: "Randomized search trees", Algorithmica 1996.)
  fileprivate final class Node: Sendable {
    let place: QueryToken
    let model: Model
    let priority: UInt64
    let left: Node?
    let right: Node?
    let count: Int

    init(_ place: QueryToken, _ model: Model, _ priority: UInt64, _ left: Node?, _ right: Node?) {
      (self.place, self.model, self.priority) = (place, model, priority)
      (self.left, self.right) = (left, right)
      count = 1 + (left?.count ?? 0) + (right?.count ?? 0)
    }

    func with(left: Node?, right: Node?) -> Node { Node(place, model, priority, left, right) }
  }
}

extension QueryModels {
  /// The place of the last model; nil when there is none.
  var lastPlace: QueryToken? {
    var node = root
    while let right = node?.right { node = right }
    return node?.place
  }

  /// Returns the number of models whose place comes before a place. Complexity: O(log n).
  func offset(of place: QueryToken, _ order: QueryOrder<Model>) -> Int {
    var (node, offset) = (root, 0)
    while let current = node {
      if order.precedes(current.place, place) {
        offset += 1 + (current.left?.count ?? 0)
        node = current.right
      } else {
        node = current.left
      }
    }
    return offset
  }

  /// Inserts a model at a place that no model has. Complexity: O(log n).
  mutating func insert(_ model: Model, at place: QueryToken, _ order: QueryOrder<Model>) {
    let (before, after) = Self.split(root, at: place, order)
    let node = Node(place, model, Self.priority(of: place), nil, nil)
    root = Self.joined(Self.joined(before, node), after)
  }

  /// Removes the model at a place. Complexity: O(log n).
  mutating func remove(at place: QueryToken, _ order: QueryOrder<Model>) {
    let (before, rest) = Self.split(root, at: place, order)
    root = Self.joined(before, rest.flatMap(Self.withoutFirst))
  }

  /// Removes the models after the first `count`. Complexity: O(log n).
  mutating func trim(to count: Int) { root = Self.first(count, of: root) }

  /// Returns the places of the models from an offset on. Complexity: O(models), for a part of them
  /// O(log n) each.
  func places(from offset: Int) -> [QueryToken] {
    var places: [QueryToken] = []
    func collect(_ node: Node?, _ skipped: Int) {
      guard let node, skipped < node.count else { return }
      let before = node.left?.count ?? 0
      collect(node.left, skipped)
      if skipped <= before { places.append(node.place) }
      collect(node.right, Swift.max(0, skipped - before - 1))
    }
    collect(root, offset)
    return places
  }

  /// Returns the nodes before a place, and the others.
  private static func split(
    _ node: Node?, at place: QueryToken, _ order: QueryOrder<Model>
  ) -> (before: Node?, rest: Node?) {
    guard let node else { return (nil, nil) }
    if order.precedes(node.place, place) {
      let (before, rest) = split(node.right, at: place, order)
      return (node.with(left: node.left, right: before), rest)
    }
    let (before, rest) = split(node.left, at: place, order)
    return (before, node.with(left: rest, right: node.right))
  }

  private static func joined(_ one: Node?, _ other: Node?) -> Node? {
    guard let one else { return other }
    guard let other else { return one }
    if one.priority >= other.priority {
      return one.with(left: one.left, right: joined(one.right, other))
    }
    return other.with(left: joined(one, other.left), right: other.right)
  }

  private static func withoutFirst(_ node: Node) -> Node? {
    guard let left = node.left else { return node.right }
    return node.with(left: withoutFirst(left), right: node.right)
  }

  private static func first(_ count: Int, of node: Node?) -> Node? {
    guard let node, count > 0 else { return nil }
    if node.count <= count { return node }
    let before = node.left?.count ?? 0
    if count <= before { return first(count, of: node.left) }
    return node.with(left: node.left, right: first(count - before - 1, of: node.right))
  }

  /// Returns a number that is as good as random, and the same for the same place.
  private static func priority(of place: QueryToken) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in place.key { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    // The last step of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
    // generators", 2014) spreads keys that differ in one bit.
    hash = (hash ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ (hash >> 27)) &* 0x94D0_49BB_1331_11EB
    return hash ^ (hash >> 31)
  }
}
