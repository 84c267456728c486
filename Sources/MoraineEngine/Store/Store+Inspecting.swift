import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// The store's figures at this moment.
  public var statistics: Statistics {
    var result = Statistics()
    result.durableSequence = durableSequence
    let (syncCount, began, poison) = pipeline.monitor.withLock { state in
      (state.syncCount, state.syncBeganNanoseconds, state.poison)
    }
    result.syncCount = syncCount
    result.poison = poison
    result.syncUnderWayNanoseconds = began.map { Machine.monotonicNanoseconds() - $0 }
    guard engine != nil else { return result }
    result.count = engine!.index.count
    result.indexBytes = engine!.index.byteCount
    result.liveBytes = engine!.liveBytes
    result.lastSequence = SequenceNumber(rawValue: engine!.lastSequence)
    result.digest = engine!.digest
    for slot in 0..<engine!.table.count where !engine!.table.infos[slot].isDropped {
      result.segmentCount += 1
      result.diskBytes += UInt64(engine!.table[slot].end)
    }
    return result
  }
}
