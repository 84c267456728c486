import MoraineEngine

/// The models of a query at one moment, in its order.
///
/// The collection is a value. A later state of the same query shares most of its memory, so keeping
/// several states is cheap. Access to a position takes O(log n).
public struct QueryModels<Model: Sendable>: RandomAccessCollection, Sendable {
  private var tree = PlaceTree()
  /// The models of a list without a query; nil with one.
  private var list: [Model]?

  init() {}

  /// Creates the collection of a list that no query keeps.
  init(_ list: [Model]) { self.list = list }

  public var startIndex: Int { 0 }
  public var endIndex: Int { list?.count ?? tree.count }

  public subscript(position: Int) -> Model {
    precondition(indices.contains(position), "a position outside of the models")
    if let list { return list[position] }
    guard let box = tree[position] as? Box else {
      fatalError("a tree of models has something else")
    }
    return box.model
  }

  private final class Box: Sendable {
    let model: Model
    init(_ model: Model) { self.model = model }
  }
}

extension QueryModels {
  /// The place of the last model; nil when there is none.
  var lastPlace: QueryPlace? { tree.lastPlace }

  /// Returns the number of models whose place comes before a place. Complexity: O(log n).
  func offset(of place: QueryPlace) -> Int { tree.offset(of: place) }

  /// Inserts a model at a place that no model has. Complexity: O(log n).
  mutating func insert(_ model: Model, at place: QueryPlace) { tree.insert(Box(model), at: place) }

  /// Removes the model at a place. Complexity: O(log n).
  mutating func remove(at place: QueryPlace) { tree.remove(at: place) }

  /// Removes the models after the first `count`. Complexity: O(log n).
  mutating func trim(to count: Int) { tree.trim(to: count) }

  /// Returns the places of the models from an offset on. Complexity: O(places + log n).
  func places(from offset: Int) -> [QueryPlace] { tree.places(from: offset) }
}
