/// A checker of transactional histories over append-only lists.
///
/// Each transaction has an id of its own, reads lists and appends its id to lists. So a list that
/// is read says who wrote it, and in which order. From this follow the dependencies between
/// transactions: a write replaces an earlier one (ww), a read sees a write (wr), a write replaces
/// what was read (rw), and a transaction begins after another one has ended (real time). A history
/// is strictly serializable when these dependencies have no circle. (Kingsbury and Alvaro, "Elle:
/// inferring isolation anomalies from experimental observations", VLDB 2020; Adya, "Weak
/// consistency", 1999, for the names of the anomalies.)
package enum HistoryChecker {
  package typealias ID = UInt32

  package struct Committed: Codable, Sendable {
    package let id: ID
    /// The lists as they were read, before the transaction's own writes.
    package var reads: [String: [ID]] = [:]
    package var appends: Set<String> = []
    /// Moments before the call and after its return, on a clock that all tasks have in common.
    package var began = 0
    package var ended = 0

    package init(
      id: ID, reads: [String: [ID]] = [:], appends: Set<String> = [], began: Int = 0,
      ended: Int = 0
    ) {
      self.id = id
      self.reads = reads
      self.appends = appends
      self.began = began
      self.ended = ended
    }

    /// Notes a list that was read, before the transaction's own writes.
    ///
    /// - Throws: ``UnrepeatableRead`` when an earlier read of the list had another result.
    package mutating func note(_ list: String, _ ids: [ID]) throws {
      if let earlier = reads.updateValue(ids, forKey: list), earlier != ids {
        throw UnrepeatableRead(
          description: "\(id) has read \(list) twice, as \(earlier) and as \(ids)")
      }
    }
  }

  /// Two reads of one transaction that do not show the same moment.
  package struct UnrepeatableRead: Error, CustomStringConvertible {
    package let description: String
  }

  private enum Edge: String {
    case writeWrite = "ww", writeRead = "wr", readWrite = "rw", time = "rt"
  }

  /// Returns descriptions of what contradicts serializability; empty when nothing does.
  ///
  /// - Parameter final: the lists after all transactions.
  package static func problems(_ history: [Committed], final: [String: [ID]]) -> [String] {
    var problems: [String] = []
    let known = Dictionary(uniqueKeysWithValues: history.map { ($0.id, $0) })
    for (list, ids) in final {
      if Set(ids).count != ids.count { problems.append("G0: \(list) has an id twice") }
      for id in ids where known[id]?.appends.contains(list) != true {
        problems.append("G1a: \(list) has \(id), which was not committed")
      }
    }
    for transaction in history {
      for list in transaction.appends where final[list]?.contains(transaction.id) != true {
        problems.append("lost: \(list) lacks \(transaction.id)")
      }
      for (list, read) in transaction.reads
      where !(final[list] ?? []).starts(with: read) {
        problems.append("G1: \(transaction.id) has read \(read) of \(list)")
      }
    }
    guard problems.isEmpty else { return problems }
    let edges = dependencies(history, final)
    if let circle = circle(history.map(\.id), edges) { problems.append(circle) }
    return problems
  }

  private static func dependencies(
    _ history: [Committed], _ final: [String: [ID]]
  ) -> [ID: [ID: Edge]] {
    var edges: [ID: [ID: Edge]] = [:]
    func add(_ from: ID, _ to: ID, _ edge: Edge) {
      if from != to, edges[from]?[to] == nil { edges[from, default: [:]][to] = edge }
    }
    for ids in final.values {
      for (one, next) in zip(ids, ids.dropFirst()) { add(one, next, .writeWrite) }
    }
    for transaction in history {
      for (list, read) in transaction.reads {
        if let last = read.last { add(last, transaction.id, .writeRead) }
        let all = final[list] ?? []
        if read.count < all.count { add(transaction.id, all[read.count], .readWrite) }
      }
    }
    for one in history {
      for other in history where one.ended < other.began { add(one.id, other.id, .time) }
    }
    return edges
  }

  /// Returns a circle of dependencies, with the name of the anomaly; nil when there is none.
  private static func circle(_ ids: [ID], _ edges: [ID: [ID: Edge]]) -> String? {
    var states: [ID: Int] = [:]
    for start in ids where states[start] == nil {
      var stack: [(id: ID, next: [ID])] = [(start, Array((edges[start] ?? [:]).keys))]
      states[start] = 1
      while let top = stack.last {
        guard let next = top.next.last else {
          states[top.id] = 2
          stack.removeLast()
          continue
        }
        stack[stack.count - 1].next.removeLast()
        if states[next] == 1 {
          let first = stack.firstIndex { $0.id == next } ?? 0
          return describe(stack[first...].map(\.id), edges)
        }
        if states[next] == nil {
          states[next] = 1
          stack.append((next, Array((edges[next] ?? [:]).keys)))
        }
      }
    }
    return nil
  }

  private static func describe(_ circle: [ID], _ edges: [ID: [ID: Edge]]) -> String {
    var text = ""
    var kinds: [Edge] = []
    for (place, id) in circle.enumerated() {
      guard let edge = edges[id]?[circle[(place + 1) % circle.count]] else { continue }
      kinds.append(edge)
      text += "\(id) -\(edge.rawValue)-> "
    }
    let readWrites = kinds.count { $0 == .readWrite }
    let name =
      readWrites > 1
      ? "G2" : readWrites == 1 ? "G-single" : kinds.contains(.writeRead) ? "G1c" : "G0"
    return "\(name): \(text)\(circle[0])"
  }
}
