// swift-tools-version: 6.2

import PackageDescription

// A user's package in another folder: by default everything is on the main actor, and concurrency
// is checked completely, as in a new app. Without traits, it gets no package that only the command
// needs. Scripts/clients builds and runs it.
let package = Package(
  name: "MainActorClient",
  platforms: [.macOS(.v15)],
  dependencies: [.package(name: "Moraine", path: "../../..", traits: [])],
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
