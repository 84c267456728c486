import CPeers
import Foundation

/// The engines and the rows.
struct Plan: Sendable {
  let size: Size

  /// The engines that store keys and values. Each is a separate type, so that the code that calls
  /// it is specialized for it.
  static var engines: [Report.Engine] {
    [MoraineMaker().engine, SnapshotMaker.engine, OrderedMaker().engine]
      + PeerMaker.all.map(\.engine)
      + Repositories.engine + [NothingMaker().engine]
  }

  var workloads: [any Workload] {
    [
      Basics(size), Batches(size), DurableCommits(size), YCSB(size), RedbStyle(size),
      OrderedKeys(size), LargeValues(size), Records(size), Latencies(size), OpenCurve(size),
      SpaceCurve(size),
    ]
  }

  var rows: [Report.Row] { workloads.flatMap(\.rows) + Repositories(size).rows }

  var groups: [String] {
    workloads.map { type(of: $0).name } + [Repositories.name]
  }

  /// Returns the engines to measure in a group. A snapshot is measured with its store.
  func engines(of group: String) -> [String] {
    if group == Repositories.name { return Repositories.engines }
    let peers = PeerMaker.all.filter { $0.engine.missing == nil }.map(\.engine.name)
    if group == OrderedKeys.name {
      return [OrderedMaker.name] + peers.filter { $0 != "tkrzw" }
    }
    // The harness alone has no meaning for durable commits or space.
    let floor = group == Basics.name ? [NothingMaker().engine.name] : []
    return [MoraineMaker.name] + peers + floor
  }

  /// Measures one group of one engine, in this process.
  func measure(_ group: String, of engine: String, in folder: String) async throws -> Recorder {
    var recorder = Recorder(engine: engine)
    if group == Repositories.name {
      try await Repositories(size).run(engine, in: folder, &recorder)
      return recorder
    }
    guard let workload = workloads.first(where: { type(of: $0).name == group }) else {
      throw NotThere(what: "group", name: group, known: groups)
    }
    switch engine {
    case MoraineMaker.name: try await workload.run(MoraineMaker(), in: folder, &recorder)
    case OrderedMaker.name: try await workload.run(OrderedMaker(), in: folder, &recorder)
    case NothingMaker().engine.name:
      try await workload.run(NothingMaker(), in: folder, &recorder)
    default:
      guard let peer = PeerMaker.all.first(where: { $0.engine.name == engine }) else {
        throw NotThere(what: "engine", name: engine, known: engines(of: group))
      }
      if let why = peer.engine.missing { throw PeerError(description: "\(engine): \(why)") }
      try await workload.run(peer, in: folder, &recorder)
    }
    return recorder
  }
}

struct NotThere: Error, CustomStringConvertible {
  let what: String
  let name: String
  let known: [String]
  var description: String {
    "there is no \(what) \"\(name)\"; there are \(known.joined(separator: ", "))"
  }
}
