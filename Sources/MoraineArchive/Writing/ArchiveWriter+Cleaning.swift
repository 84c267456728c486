// Cleaning after a checkpoint, beside the shipping of the log.
extension ArchiveWriter {
  /// Begins to remove what the rule of the configuration does not keep, unless a cleaning is under
  /// way. The next checkpoint begins another one.
  func beginCleaning() {
    guard let rule = configuration.retention, cleaning == nil, failure == nil else { return }
    let cleaner = ArchiveCleaner(
      objects: objects.through(cleaningMeter), rule: rule, isDryRun: false)
    cleaning = Task { [weak self, memory = cleaningMemory] in
      var memory = memory
      let result: Result<CleaningReport, ArchiveError>
      do throws(ArchiveError) {
        result = .success(try await cleaner.run(&memory))
      } catch {
        result = .failure(error)
      }
      await self?.noteCleaning(result, memory)
    }
  }

  /// Waits until the cleaning that is under way ends, or its requests are no longer answered.
  /// Returns early when the task is cancelled.
  ///
  /// A cleaning removes nothing before it has read all checkpoints. So a limit of its whole time
  /// would let a program that runs briefly never clean.
  package func waitForCleaning() async {
    guard let cleaning else { return }
    let limit = configuration.cleaningPatience
    let (ended, ending) = AsyncStream.makeStream(of: Void.self)
    Task {
      await cleaning.value
      ending.finish()
    }
    let timer = Task { [requests = cleaningMeter, sleep = configuration.sleep] in
      var seen: Int
      repeat {
        seen = requests.answerCount
        // The sleep of a timer that is no longer needed ends early.
        do { try await sleep(limit) } catch { return ending.finish() }
      } while requests.answerCount > seen
      ending.finish()
    }
    for await _ in ended {}
    timer.cancel()
  }

  /// Reports a cleaning that is under way, and that the end of the writer interrupts.
  func reportInterruptedCleaning() {
    guard cleaning != nil else { return }
    let error = ArchiveError(
      .cancelled, "the cleaning was interrupted by the end of its writer; the next one goes on")
    configuration.onEvent?(.cleaningFailed(error))
  }

  private func noteCleaning(
    _ result: Result<CleaningReport, ArchiveError>, _ memory: CleaningMemory
  ) {
    (cleaning, cleaningMemory) = (nil, memory)
    switch result {
    case .success(let report):
      hasCleaningFailed = false
      configuration.onEvent?(.cleaned(report))
    case .failure(let error):
      if error.code == .cancelled || hasCleaningFailed { return }
      hasCleaningFailed = true
      configuration.onEvent?(.cleaningFailed(error))
    }
  }
}
