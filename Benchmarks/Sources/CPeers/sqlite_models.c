#include "loading.h"

#if __has_include(<sqlite3.h>)
#include <sqlite3.h>

#define FUNCTIONS(F)                                                                               \
  F(sqlite3_open_v2) F(sqlite3_close_v2) F(sqlite3_exec) F(sqlite3_prepare_v3) F(sqlite3_step)     \
  F(sqlite3_reset) F(sqlite3_finalize) F(sqlite3_bind_int64) F(sqlite3_bind_double)                \
  F(sqlite3_bind_text) F(sqlite3_column_int64) F(sqlite3_column_double) F(sqlite3_column_text)     \
  F(sqlite3_column_bytes) F(sqlite3_errmsg)
FUNCTIONS(PEER_FUNCTION)

struct peer_models {
  sqlite3 *db;
  sqlite3_stmt *save, *find, *range, *count;
};

static const char *load(void) {
  void *library = peer_open_library("sqlite3");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

static int failed(const char *what, int code, sqlite3 *db) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return 0;
  return peer_fail(what, p_sqlite3_errmsg(db));
}

static int execute(sqlite3 *db, const char *text) {
  return failed(text, p_sqlite3_exec(db, text, NULL, NULL, NULL), db);
}

static int prepare(peer_models *models, const char *text, sqlite3_stmt **statement) {
  int code = p_sqlite3_prepare_v3(models->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  return failed(text, code, models->db);
}

#define COLUMNS "id, name, email, score, isActive"

static peer_models *open_models(const char *path) {
  peer_models *models = calloc(1, sizeof *models);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (!failed("open", p_sqlite3_open_v2(path, &models->db, flags, NULL), models->db) &&
      !execute(models->db,
               "PRAGMA mmap_size=2147418112; PRAGMA cache_size=-65536; PRAGMA journal_mode=WAL;"
               "PRAGMA temp_store=MEMORY; PRAGMA synchronous=OFF;"
               "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, score REAL,"
               " isActive INTEGER); CREATE INDEX i ON t(score)") &&
      !prepare(models,
               "INSERT INTO t VALUES(?1,?2,?3,?4,?5) ON CONFLICT(id) DO UPDATE SET"
               " name=excluded.name, email=excluded.email, score=excluded.score,"
               " isActive=excluded.isActive",
               &models->save) &&
      !prepare(models, "SELECT " COLUMNS " FROM t WHERE email=?1", &models->find) &&
      !prepare(models, "SELECT " COLUMNS " FROM t WHERE score>=?1 ORDER BY score LIMIT ?2",
               &models->range) &&
      !prepare(models, "SELECT count(*) FROM t WHERE score>=?1 AND score<?2", &models->count))
    return models;
  if (models->db) p_sqlite3_close_v2(models->db);
  free(models);
  return NULL;
}

static int close_models(peer_models *models) {
  p_sqlite3_finalize(models->save);
  p_sqlite3_finalize(models->find);
  p_sqlite3_finalize(models->range);
  p_sqlite3_finalize(models->count);
  int code = failed("close", p_sqlite3_close_v2(models->db), models->db);
  free(models);
  return code;
}

static int begin(peer_models *models) { return execute(models->db, "BEGIN IMMEDIATE"); }
static int commit(peer_models *models) { return execute(models->db, "COMMIT"); }

static int save(peer_models *models, const peer_model *model) {
  sqlite3_stmt *statement = models->save;
  p_sqlite3_bind_int64(statement, 1, model->id);
  p_sqlite3_bind_text(statement, 2, model->name.bytes, (int)model->name.length, SQLITE_STATIC);
  p_sqlite3_bind_text(statement, 3, model->email.bytes, (int)model->email.length, SQLITE_STATIC);
  p_sqlite3_bind_double(statement, 4, model->score);
  p_sqlite3_bind_int64(statement, 5, model->is_active);
  int code = failed("save", p_sqlite3_step(statement), models->db);
  p_sqlite3_reset(statement);
  return code;
}

static int visit_all(peer_models *models, sqlite3_stmt *statement,
                     void (*visit)(void *, const peer_model *), void *context) {
  int code;
  while ((code = p_sqlite3_step(statement)) == SQLITE_ROW) {
    peer_model model = {
        .id = p_sqlite3_column_int64(statement, 0),
        .name = {p_sqlite3_column_text(statement, 1), (size_t)p_sqlite3_column_bytes(statement, 1)},
        .email = {p_sqlite3_column_text(statement, 2),
                  (size_t)p_sqlite3_column_bytes(statement, 2)},
        .score = p_sqlite3_column_double(statement, 3),
        .is_active = p_sqlite3_column_int64(statement, 4) != 0};
    visit(context, &model);
  }
  code = failed("read", code, models->db);
  p_sqlite3_reset(statement);
  return code;
}

static int find(peer_models *models, peer_bytes email, void (*visit)(void *, const peer_model *),
                void *context) {
  p_sqlite3_bind_text(models->find, 1, email.bytes, (int)email.length, SQLITE_STATIC);
  return visit_all(models, models->find, visit, context);
}

static int range(peer_models *models, double low, int64_t limit,
                 void (*visit)(void *, const peer_model *), void *context) {
  p_sqlite3_bind_double(models->range, 1, low);
  p_sqlite3_bind_int64(models->range, 2, limit);
  return visit_all(models, models->range, visit, context);
}

static int count(peer_models *models, double low, double high, int64_t *number) {
  p_sqlite3_bind_double(models->count, 1, low);
  p_sqlite3_bind_double(models->count, 2, high);
  int code = failed("count", p_sqlite3_step(models->count), models->db);
  if (!code) *number = p_sqlite3_column_int64(models->count, 0);
  p_sqlite3_reset(models->count);
  return code;
}

const peer_models_api peer_sqlite_models = {
    .load = load, .message = peer_message, .open = open_models, .close = close_models,
    .begin = begin, .commit = commit, .save = save, .find = find, .range = range, .count = count,
};
#else
static const char *load(void) {
  return "its header was not installed when the benchmark was built (libsqlite3-dev)";
}
const peer_models_api peer_sqlite_models = {.load = load, .message = peer_message};
#endif
