#if S3
  import MoraineEngine

  /// Lets a number of uploads run at the same time, and the others wait for them.
  actor UploadLimit {
    private let gates: [AsyncGate]
    /// The number of uploads that run or wait at each gate.
    private var loads: [Int]

    init(_ count: Int) {
      precondition(count > 0, "no upload could ever run")
      gates = (0..<count).map { _ in AsyncGate() }
      loads = [Int](repeating: 0, count: count)
    }

    /// Waits until an upload may run.
    ///
    /// - Returns: the number of its gate, for ``leave(_:)``.
    func enter() async -> Int {
      let gate = loads.indices.min { loads[$0] < loads[$1] } ?? 0
      loads[gate] += 1
      await gates[gate].acquire()
      return gate
    }

    /// Ends an upload.
    func leave(_ gate: Int) {
      assert(loads[gate] > 0, "an upload leaves a gate that it has not entered")
      loads[gate] -= 1
      gates[gate].release()
    }
  }
#endif
