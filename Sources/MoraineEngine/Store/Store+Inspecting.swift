import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// The store's figures at this moment. What is counted in the log is 0 when the store is closed
  /// or suspended; in a shared one whose news cannot be read, it is as it was known.
  public var statistics: Statistics {
    get async {
      await tryToCatchUp()
      return knownStatistics
    }
  }

  /// The figures without what other processes have written since this one has looked.
  var knownStatistics: Statistics {
    var result = Statistics()
    result.durableSequence = durableSequence
    let (syncCount, began) = pipeline.monitor.withLock { ($0.syncCount, $0.syncBeganNanoseconds) }
    result.syncCount = syncCount
    result.syncUnderWayNanoseconds = began.map { Machine.monotonicNanoseconds() - $0 }
    result.poison = pipeline.poison
    result.compactionBytes = compactionBytes
    result.checkpointBytes = checkpointBytes
    result.compactionCount = compactionCount
    if engine != nil { describeEngine(in: &result) }
    return result
  }

  /// The segments that make up the store, in the order of the log; none when it is closed or
  /// suspended.
  ///
  /// - Complexity: O(segments).
  public var segmentStatistics: [SegmentStatistics] {
    get async {
      await tryToCatchUp()
      return knownSegmentStatistics
    }
  }

  var knownSegmentStatistics: [SegmentStatistics] {
    guard engine != nil else { return [] }
    return engine!.table.order.map { slot in
      let (info, view) = (engine!.table.infos[slot], engine!.table[slot])
      var result = SegmentStatistics(number: info.number)
      result.lengthBytes = UInt64(view.end)
      result.liveBytes = UInt64(view.boundedLiveBytes)
      result.recordCount = view.recordCount
      result.lastSequence = SequenceNumber(rawValue: view.lastSequence)
      result.isSealed = info.flags.contains(.sealed)
      result.isCompacted = info.flags.contains(.compacted)
      return result
    }
  }

  private func describeEngine(in result: inout Statistics) {
    result.appendedBytes = engine!.appendedBytes
    result.count = engine!.index.count
    result.indexBytes = engine!.index.byteCount
    result.lastSequence = SequenceNumber(rawValue: engine!.lastSequence)
    result.digest = engine!.digest
    for slot in engine!.table.readingOrder {
      result.segmentCount += 1
      result.diskBytes += UInt64(engine!.table[slot].end)
    }
    result.liveBytes = min(engine!.liveBytes, result.diskBytes)
  }
}
