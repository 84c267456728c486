#if S3
  import MoraineArchive
  import MoraineEngine
  import MoraineStorage
  import NIOCore

  /// The pieces of a long body on their way from a thread that may block to a connection.
  ///
  /// At most a few pieces are in memory: the thread waits until the connection wants more, or until
  /// the request has ended.
  final class StreamedBody: NIOAsyncSequenceProducerDelegate, Sendable {
    typealias Pieces = NIOThrowingAsyncSequenceProducer<
      ByteBuffer, any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark,
      StreamedBody
    >

    /// The most bytes in one piece.
    static let pieceByteCount = 256 << 10
    /// The most pieces that wait for the connection.
    private static let waitingLimit = 4

    private struct State: Sendable {
      /// The number of times that the connection has wanted more.
      var demand = 0
      var hasEnded = false
    }

    private let state = Monitor(State())

    /// Begins to read a body on a thread of `lanes`.
    ///
    /// The caller ends the reading with ``stop()`` when the request has ended.
    func start(_ body: ObjectBody, on lanes: RequestLanes) -> Pieces {
      let made = Pieces.makeSequence(
        elementType: ByteBuffer.self, failureType: (any Error).self,
        backPressureStrategy: .init(lowWatermark: 1, highWatermark: Self.waitingLimit),
        finishOnDeinit: false, delegate: self)
      let source = made.source
      Task {
        do throws(ObjectStoreError) {
          try await lanes.run { () throws(ObjectStoreError) in try self.send(body, to: source) }
          source.finish()
        } catch {
          source.finish(error)
        }
      }
      return made.sequence
    }

    /// Blocks while the connection does not want more.
    private func send(_ body: ObjectBody, to source: Pieces.Source) throws(ObjectStoreError) {
      try body.visit { bytes in
        var start = 0
        while start < bytes.count {
          let end = min(start + Self.pieceByteCount, bytes.count)
          let piece = ByteBuffer(bytes: UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
          switch source.yield(piece) {
          case .produceMore: break
          case .stopProducing: if !waitForDemand() { return false }
          case .dropped: return false
          }
          start = end
        }
        return true
      }
    }

    private func waitForDemand() -> Bool {
      state.wait { state in
        if state.hasEnded { return .done(false) }
        guard state.demand > 0 else { return .forSignal }
        state.demand -= 1
        return .done(true)
      }
    }

    func produceMore() {
      state.withLock { $0.demand += 1 }
      state.signal()
    }

    func didTerminate() { stop() }

    /// Ends the reading of the body.
    func stop() {
      state.withLock { $0.hasEnded = true }
      state.broadcast()
    }
  }

  extension ObjectBody {
    /// Calls the argument with the pieces, until it returns false. Blocks.
    ///
    /// - Throws: `.unreadableBody`, or `.cancelled`.
    func visit(_ body: (UnsafeRawBufferPointer) -> Bool) throws(ObjectStoreError) {
      do throws(StoreError) { try forEachPiece(body) } catch {
        throw ObjectStoreError(
          error.code == .cancelled ? .cancelled : .unreadableBody, error.message,
          mayHaveHadEffect: false)
      }
    }
  }
#endif
