import Configuration
import Foundation
import Logging
import Metrics
import Moraine
import ServiceLifecycle
import Synchronization
import SystemPackage
import Testing
import UnixSignals

/// Compiles every Swift line of the article on integrations.
@Suite(.timeLimit(.minutes(5))) struct ArticleTests {
  @Test func aServer() async throws {
    var configuration = Store.Configuration()
    configuration.onEvent = { event in
      if case .poisoned(let error) = event { print("the store stopped writing: \(error)") }
    }

    configuration.log(to: Logger(label: "app.store"))

    let metrics = StoreMetrics(storeName: "accounts")
    configuration.record(in: metrics)

    let place = FileManager.default.temporaryDirectory.appending(path: "article-\(UUID())")
    let folder = FilePath(place.path)
    let server = Ending()
    let logger = Logger(label: "app")
    let store = try await Store.open(at: folder, configuration: configuration)
    let group = ServiceGroup(
      services: [StoreService(store, recordingIn: metrics), server],
      gracefulShutdownSignals: [.sigterm], logger: logger)
    server.group.withLock { $0 = group }
    try await group.run()
    let error = await #expect(throws: StoreError.self) { try await store.sync() }
    #expect(error?.code == .closed)
  }

  @Test func settings() throws {
    let reader = ConfigReader(provider: EnvironmentVariablesProvider())
    var settings = try Store.Configuration(reader: reader.scoped(to: "store"))
    settings.isReadOnly = true
    #expect(settings.isReadOnly)
  }
}

/// Service that ends its group as soon as it runs.
final class Ending: Service {
  let group = Mutex<ServiceGroup?>(nil)

  func run() async throws {
    await group.withLock { $0 }?.triggerGracefulShutdown()
    try await gracefulShutdown()
  }
}
