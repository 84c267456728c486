import CPeers
import Foundation

/// The engines and the rows.
struct Plan: Sendable {
  let size: Size

  /// The engines that store keys and values. Each is a separate type, so that the code that calls
  /// it is specialized for it.
  static var engines: [Report.Engine] {
    [MoraineMaker().engine, SnapshotMaker.engine, LiveMaker.engine, OrderedMaker().engine]
      + PeerMaker.all.map(\.engine)
      + Repositories.engine + [NothingMaker().engine]
  }

  /// Each is made only where it is needed, because it may have data of many keys.
  static let workloads: [any Workload.Type] = [
    Basics.self, Batches.self, DurableCommits.self, YCSB.self, RedbStyle.self, OrderedKeys.self,
    AscendingKeys.self, Overwriting.self, LargeValues.self, Records.self, Latencies.self,
    OpenCurve.self, SpaceCurve.self,
  ]
  /// The groups of engines that have their keys in order.
  static let orderedGroups = [OrderedKeys.name, AscendingKeys.name]

  var rows: [Report.Row] {
    Plan.workloads.flatMap { $0.init(size).rows } + Repositories(size).rows
      + IndexedModels(size).rows + ExpiringKeys(size).rows + MainActorCalls(size).rows
  }

  var groups: [String] {
    Plan.workloads.map { $0.name }
      + [Repositories.name, IndexedModels.name, ExpiringKeys.name, MainActorCalls.name]
  }

  /// Returns the engines to measure in a group. A snapshot is measured with its store.
  func engines(of group: String) -> [String] {
    if group == Repositories.name { return Repositories.engines }
    if group == IndexedModels.name { return IndexedModels.engines }
    if group == ExpiringKeys.name { return ExpiringKeys.engines }
    if group == MainActorCalls.name { return MainActorCalls.engines }
    let peers = PeerMaker.all.filter { $0.engine.missing == nil }.map(\.engine.name)
    if Plan.orderedGroups.contains(group) {
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
    if group == IndexedModels.name {
      try await IndexedModels(size).run(engine, in: folder, &recorder)
      return recorder
    }
    if group == MainActorCalls.name {
      try await MainActorCalls(size).run(in: folder, &recorder)
      return recorder
    }
    if group == ExpiringKeys.name {
      let keys = ExpiringKeys(size)
      if engine == MoraineMaker.name {
        try await keys.run(ExpiringMaker(), in: folder, &recorder)
      } else {
        try await keys.run(PeerMaker(peer_rocksdb), in: folder, &recorder)
      }
      return recorder
    }
    guard let type = Plan.workloads.first(where: { $0.name == group }) else {
      throw NotThere(what: "group", name: group, known: groups)
    }
    let workload = type.init(size)
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
