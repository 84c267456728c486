"""The planted bugs, none of which ships: row 12 of the proof. Scripts/mutants runs them."""

import backups
import compaction
import costs
import observation
import recovery
import replacing
import salvage
import sharing
import snapshots
import threads
import typed_layer
import writing

MUTANTS = writing.MUTANTS + recovery.MUTANTS + compaction.MUTANTS + observation.MUTANTS \
    + sharing.MUTANTS + snapshots.MUTANTS + backups.MUTANTS \
    + salvage.MUTANTS + threads.MUTANTS + typed_layer.MUTANTS \
    + replacing.MUTANTS + costs.MUTANTS
