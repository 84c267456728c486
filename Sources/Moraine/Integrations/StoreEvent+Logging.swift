#if Logging
  public import Logging
  public import MoraineEngine
  import SystemPackage

  /// Logging of a store's events.
  extension Store.Configuration {
    /// Logs the events of the store. An existing handler in
    /// ``/MoraineEngine/Store/Configuration/onEvent`` is still called.
    ///
    /// A failure is a `warning`; a full disk and damage are an `error`; a store that stops writing
    /// is `critical`. Opening and closing are `info`, opening after a crash is `notice`, and
    /// maintenance is `debug`.
    public mutating func log(to logger: Logger) {
      addEventHandler { $0.log(to: logger) }
    }
  }

  /// Logging of one event.
  extension StoreEvent {
    /// Logs the event as one message. Each kind of event has one text; the details are metadata.
    public func log(to logger: Logger) {
      logger.log(level: level, message, metadata: metadata)
    }

    private var level: Logger.Level {
      switch self {
      case .opened(let report):
        if report.checkpointProblem != nil { return .warning }
        return report.wasClean ? .info : .notice
      case .segmentSealed, .compacted, .checkpointWritten, .keyspaceOrdering, .indexBuilding,
        .entriesExpired:
        return .debug
      case .keyspaceOrdered, .indexBuilt: return .info
      case .compactionFailed(let error): return error.code == .corrupted ? .error : .warning
      case .checkpointFailed, .manifestFailed, .indexBuildingFailed, .reapingFailed, .clockJumped:
        return .warning
      case .outOfSpace: return .error
      case .poisoned: return .critical
      case .suspended(let failure), .closed(let failure): return failure == nil ? .info : .error
      }
    }

    private var message: Logger.Message {
      switch self {
      case .opened(let report):
        report.wasClean ? "store opened" : "store opened after an unclean stop"
      case .segmentSealed: "segment sealed"
      case .compacted: "segments compacted"
      case .compactionFailed: "compaction in the background failed"
      case .checkpointWritten: "index checkpoint written"
      case .checkpointFailed: "index checkpoint not written"
      case .keyspaceOrdering: "keyspace being ordered"
      case .keyspaceOrdered: "keyspace ordered"
      case .indexBuilding: "index being built"
      case .indexBuilt: "index built"
      case .indexBuildingFailed: "index incomplete"
      case .entriesExpired: "expired entries deleted"
      case .reapingFailed: "expired entries not deleted"
      case .clockJumped: "clock was set forward"
      case .manifestFailed: "manifest not written in the background"
      case .outOfSpace: "no space left for the store"
      case .poisoned: "store stopped writing"
      case .suspended(let failure):
        failure == nil ? "store suspended" : "store suspended with a failure"
      case .closed(let failure): failure == nil ? "store closed" : "store closed with a failure"
      }
    }

    private var metadata: Logger.Metadata {
      switch self {
      case .opened(let report): report.metadata
      case .segmentSealed(let number, let lengthBytes):
        ["segment": "\(number.rawValue)", "length_bytes": "\(lengthBytes)"]
      case .compacted(let report, let elapsedNanoseconds):
        [
          "segments": "\(report.inputSegmentCount)", "read_bytes": "\(report.inputBytes)",
          "written_bytes": "\(report.outputBytes)", "elapsed_ns": "\(elapsedNanoseconds)",
        ]
      case .checkpointWritten(let lengthBytes, let elapsedNanoseconds):
        ["length_bytes": "\(lengthBytes)", "elapsed_ns": "\(elapsedNanoseconds)"]
      case .keyspaceOrdering(let name, let progress):
        [
          "keyspace": "\(name)", "completed_bytes": "\(progress.completedBytes)",
          "total_bytes": "\(progress.totalBytes)",
        ]
      case .keyspaceOrdered(let name, let keyCount, let elapsedNanoseconds):
        ["keyspace": "\(name)", "keys": "\(keyCount)", "elapsed_ns": "\(elapsedNanoseconds)"]
      case .indexBuilding(let keyspace, let modelCount):
        ["keyspace": "\(keyspace)", "models": "\(modelCount)"]
      case .indexBuilt(let keyspace, let index, let modelCount, let elapsedNanoseconds):
        [
          "keyspace": "\(keyspace)", "index": "\(index)", "models": "\(modelCount)",
          "elapsed_ns": "\(elapsedNanoseconds)",
        ]
      case .indexBuildingFailed(let keyspace, let error):
        error.metadata.merging(["keyspace": "\(keyspace)"]) { $1 }
      case .entriesExpired(let count): ["count": "\(count)"]
      case .clockJumped(let milliseconds): ["milliseconds": "\(milliseconds)"]
      case .compactionFailed(let error), .checkpointFailed(let error), .manifestFailed(let error),
        .reapingFailed(let error), .outOfSpace(let error), .poisoned(let error):
        error.metadata
      case .suspended(let failure), .closed(let failure): failure?.metadata ?? [:]
      }
    }
  }

  extension RecoveryReport {
    fileprivate var metadata: Logger.Metadata {
      var result: Logger.Metadata = [
        "records": "\(recordCount)", "segments": "\(segmentCount)",
        "last_sequence": "\(lastSequence.rawValue)", "replayed_bytes": "\(replayedBytes)",
        "used_checkpoint": "\(usedCheckpoint)", "elapsed_ns": "\(elapsedNanoseconds)",
      ]
      if let tornSegment {
        result["torn_segment"] = "\(tornSegment.rawValue)"
        result["torn_bytes"] = "\(tornBytes)"
      }
      if let checkpointProblem { result["checkpoint_problem"] = "\(checkpointProblem)" }
      if !foreignFiles.isEmpty { result["foreign_files"] = .array(foreignFiles.map { "\($0)" }) }
      return result
    }
  }

  extension StoreError {
    fileprivate var metadata: Logger.Metadata {
      var result: Logger.Metadata = ["error_code": "\(code)"]
      if let messageForLogs { result["error"] = "\(messageForLogs)" }
      if let duplicate { result["index"] = "\(duplicate.index)" }
      if let file { result["file"] = "\(file)" }
      if let offset { result["offset_bytes"] = "\(offset)" }
      if let errno { result["errno"] = "\(errno.rawValue)" }
      return result
    }
  }
#endif
