// swift-tools-version: 6.2

import PackageDescription

// A user's package in another folder: by default everything is on the main actor, and concurrency
// is checked completely, as in a new app. Scripts/clients builds and runs it.
let package = Package(
  name: "MainActorClient",
  platforms: [.macOS(.v15)],
  dependencies: [.package(name: "Moraine", path: "../../..")],
  targets: [
    .executableTarget(
      name: "MainActorClient",
      dependencies: [.product(name: "Moraine", package: "Moraine")],
      swiftSettings: [
        .defaultIsolation(MainActor.self),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
        .enableUpcomingFeature("InferIsolatedConformances"),
        .enableUpcomingFeature("ExistentialAny"),
        .treatAllWarnings(as: .error),
      ])
  ]
)
