#if S3
  import MoraineArchive
  import Synchronization
  import Testing

  @testable import MoraineS3

  /// Uploads to a server that permits a few at the same time.
  @Suite(.timeLimit(.minutes(2))) struct UploadLimitTests {
    private static let name = objectName("obj/1")
    private static let patience = Duration.seconds(600)

    /// The number of uploads that run, and the largest number so far.
    private final class Load: Sendable {
      private let numbers = Mutex([0, 0])

      var most: Int { numbers.withLock { $0[1] } }

      func change(_ step: Int) {
        numbers.withLock { numbers in
          numbers[0] += step
          numbers[1] = max(numbers[1], numbers[0])
        }
      }
    }

    /// Numbers in the order in which they were added.
    private final class Log: Sendable {
      private let list = Mutex<[Int]>([])
      var numbers: [Int] { list.withLock { $0 } }
      func add(_ number: Int) { list.withLock { $0.append(number) } }
    }

    @Test func uploadsBeyondTheLimitWait() async throws {
      let limit = UploadLimit(3)
      let load = Load()
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<50 {
          group.addTask {
            #expect(await limit.enter(within: Self.patience))
            load.change(1)
            for _ in 0..<20 { await Task.yield() }
            load.change(-1)
            limit.leave()
          }
        }
      }
      #expect((1...3).contains(load.most))
      #expect(limit.runningCount == 0 && limit.waitingCount == 0)
    }

    @Test func uploadsRunInTheirOrder() async throws {
      let limit = UploadLimit(1)
      let log = Log()
      #expect(await limit.enter(within: Self.patience))
      var tasks: [Task<Void, Never>] = []
      for number in 0..<10 {
        tasks.append(
          Task {
            #expect(await limit.enter(within: Self.patience))
            log.add(number)
            limit.leave()
          })
        while limit.waitingCount <= number { await Task.yield() }
      }
      limit.leave()
      for task in tasks { await task.value }
      #expect(log.numbers == Array(0..<10))
    }

    @Test func cancelledUploadWaitsNoLonger() async throws {
      let limit = UploadLimit(1)
      #expect(await limit.enter(within: Self.patience))
      let task = Task { await limit.enter(within: Self.patience) }
      while limit.waitingCount == 0 { await Task.yield() }
      task.cancel()
      #expect(await task.value == false)
      try #require(limit.waitingCount == 0 && limit.runningCount == 1)
      limit.leave()
      #expect(limit.runningCount == 0)
    }

    /// The upload is let in, and its task cancelled, in each order and at the same time.
    @Test func noPlaceIsLostWhenACancellationMeetsAnEnd() async throws {
      let limit = UploadLimit(1)
      for round in 0..<300 {
        #expect(await limit.enter(within: Self.patience))
        let task = Task { await limit.enter(within: Self.patience) }
        while limit.waitingCount == 0 { await Task.yield() }
        if round % 3 == 0 {
          limit.leave()
          task.cancel()
        } else if round % 3 == 1 {
          task.cancel()
          limit.leave()
        } else {
          async let end: Void = limit.leave()
          task.cancel()
          await end
        }
        if await task.value { limit.leave() }
        try #require(limit.runningCount == 0 && limit.waitingCount == 0, "round \(round)")
      }
    }

    @Test func waitingEndsWithItsTime() async throws {
      let limit = UploadLimit(1)
      #expect(await limit.enter(within: Self.patience))
      #expect(await limit.enter(within: .milliseconds(10)) == false)
      #expect(limit.waitingCount == 0 && limit.runningCount == 1)
      limit.leave()
      #expect(await limit.enter(within: .milliseconds(10)))
    }
  }

  /// The same with requests: R2 permits three uploads.
  extension UploadLimitTests {
    private typealias Upload = Task<ObjectStoreError?, Never>

    /// A body of a megabyte, so that the request has sixteen seconds more.
    private static let longBody = ObjectBody([UInt8](repeating: 1, count: 1 << 20))

    private func upload(_ body: ObjectBody, to objects: S3ObjectStore) -> Upload {
      Task {
        do throws(ObjectStoreError) { try await objects.put(Self.name, body) } catch {
          return error
        }
        return nil
      }
    }

    /// Regression: an upload waited for one of the others, chosen before.
    @Test(arguments: 0..<3) func uploadRunsWhenAnyOtherHasEnded(ending: Int) async throws {
      let server = try await BucketServer { number, _ in number < 3 ? .silence : .answer(200) }
      let objects = try server.objects(provider: .cloudflareR2)
      let limit = try #require(objects.client.uploads)
      var uploads: [Upload] = []
      for number in 0..<3 {
        uploads.append(upload(ObjectBody([1]), to: objects))
        while server.received.count <= number { await Task.yield() }
      }
      let last = upload(ObjectBody([2]), to: objects)
      while limit.waitingCount == 0 { await Task.yield() }
      uploads[ending].cancel()
      #expect(await last.value == nil)
      for upload in uploads { upload.cancel() }
      for upload in uploads { #expect(await upload.value?.code == .cancelled) }
    }

    @Test func uploadThatHasWaitedTooLongHasNoEffect() async throws {
      let server = try await BucketServer { _, _ in .silence }
      let objects = try server.objects(provider: .cloudflareR2, timeout: .milliseconds(300))
      let limit = try #require(objects.client.uploads)
      let uploads = (0..<3).map { _ in upload(Self.longBody, to: objects) }
      while server.received.count < 3 { await Task.yield() }

      let late = await upload(ObjectBody([1]), to: objects).value
      try #require(late?.code == .unavailable && late?.mayHaveHadEffect == false)
      #expect(late?.message.contains("other uploads") == true && late?.object == Self.name)

      let cancelled = upload(Self.longBody, to: objects)
      while limit.waitingCount == 0 { await Task.yield() }
      cancelled.cancel()
      let error = await cancelled.value
      #expect(error?.code == .cancelled && error?.mayHaveHadEffect == false)
      #expect(error?.object == Self.name)

      #expect(server.received.count == 3)
      for upload in uploads { upload.cancel() }
      for upload in uploads { #expect(await upload.value != nil) }
      #expect(limit.runningCount == 0)
    }
  }
#endif
