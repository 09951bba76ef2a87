BEGIN TRANSACTION;
CREATE TABLE tool_calls (
    key INTEGER PRIMARY KEY,
    record_id TEXT,
    call_id TEXT,
    parent_call_id TEXT,
    tool_name TEXT NOT NULL,
    definition_id INTEGER,
    generation INTEGER,
    outcome TEXT NOT NULL,
    error_type TEXT,
    reached_executor INTEGER NOT NULL,
    caller_id TEXT,
    caller_type TEXT NOT NULL,
    conversation_id TEXT,
    workflow_id TEXT,
    agent_id TEXT,
    session_id TEXT,
    bucket TEXT,
    admission_key TEXT,
    priority INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    queue_wait REAL NOT NULL,
    execution_time REAL NOT NULL,
    wait_bin INTEGER NOT NULL,
    time_bin INTEGER NOT NULL,
    result_size INTEGER,
    error TEXT,
    params TEXT NOT NULL,
    result TEXT,
    result_hash BLOB,
    whole_hash BLOB
);
INSERT INTO "tool_calls" VALUES(1807294464000000741,NULL,'call-0',NULL,'tool-0',NULL,1,'succeeded',NULL,1,'ann','direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764936000000000,0.001,0.01,240,319,9,NULL,'{}','{"number":0}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807295180800000741,NULL,'call-1',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764936700000000,0.0,0.02,0,343,9,NULL,'{}','{"number":1}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807295897600000741,NULL,'call-2',NULL,'tool-0',NULL,1,'timeout','timeout',1,'ann','direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764937400000000,0.0,0.03,0,357,9,'it failed','{}','{"number":2}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807296614400000741,NULL,'call-3',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764938100000000,0.004,0.04,288,367,9,NULL,'{}','{"number":3}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807297331200000741,NULL,'call-4',NULL,'tool-0',NULL,1,'rejected','queue_full',1,'ann','direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764938800000000,0.0,0.05,0,375,9,'it failed','{}','{"number":4}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807298048000000741,NULL,'call-5',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764939500000000,0.0,0.06,0,381,9,NULL,'{}','{"number":5}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807298764800000741,NULL,'call-6',NULL,'tool-0',NULL,1,'succeeded',NULL,1,'ann','direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764940200000000,0.007,0.07,307,387,9,NULL,'{}','{"number":6}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807299481600000741,NULL,'call-7',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764940900000000,0.0,0.08,0,391,9,NULL,'{}','{"number":7}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807300198400000741,NULL,'call-8',NULL,'tool-0',NULL,1,'timeout','timeout',1,'ann','direct','chat-2',NULL,NULL,NULL,NULL,NULL,5,1,1,1764941600000000,0.0,0.09,0,395,9,'it failed','{}','{"number":8}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807300915200000741,NULL,'call-9',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764942300000000,0.01,0.1,319,399,9,NULL,'{}','{"number":9}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807301632000000741,NULL,'call-10',NULL,'tool-0',NULL,1,'rejected','queue_full',1,'ann','direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764943000000000,0.0,0.11,0,402,9,'it failed','{}','{"number":10}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807302348800000741,NULL,'call-11',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764943700000000,0.0,0.12,0,405,9,NULL,'{}','{"number":11}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807303065600000741,NULL,'call-12',NULL,'tool-0',NULL,1,'succeeded',NULL,1,'ann','direct','chat-0',NULL,NULL,NULL,NULL,NULL,5,1,1,1764944400000000,1.30000000000000011379e-02,0.13,328,408,9,NULL,'{}','{"number":12}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807303782400000741,NULL,'call-13',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764945100000000,0.0,0.14,0,411,9,NULL,'{}','{"number":13}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807304499200000741,NULL,'call-14',NULL,'tool-0',NULL,1,'timeout','timeout',1,'ann','direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764945800000000,0.0,0.15,0,413,9,'it failed','{}','{"number":14}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807305216000000741,NULL,'call-15',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764946500000000,0.016,0.16,336,415,9,NULL,'{}','{"number":15}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807305932800000741,NULL,'call-16',NULL,'tool-0',NULL,1,'rejected','queue_full',1,'ann','direct','chat-1',NULL,NULL,NULL,NULL,NULL,5,1,1,1764947200000000,0.0,0.17,0,418,9,'it failed','{}','{"number":16}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807306649600000741,NULL,'call-17',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764947900000000,0.0,0.18,0,419,9,NULL,'{}','{"number":17}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807307366400000741,NULL,'call-18',NULL,'tool-0',NULL,1,'succeeded',NULL,1,'ann','direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764948600000000,0.019,0.19,342,421,9,NULL,'{}','{"number":18}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807308083200000741,NULL,'call-19',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764949300000000,0.0,0.2,0,423,9,NULL,'{}','{"number":19}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807308800000000741,NULL,'call-20',NULL,'tool-0',NULL,1,'timeout','timeout',1,'ann','direct','chat-2',NULL,NULL,NULL,NULL,NULL,5,1,1,1764950000000000,0.0,0.21,0,425,9,'it failed','{}','{"number":20}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807309516800000741,NULL,'call-21',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-0',NULL,NULL,NULL,'http',NULL,5,1,1,1764950700000000,0.022,0.22,347,426,9,NULL,'{}','{"number":21}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807310233600000741,NULL,'call-22',NULL,'tool-0',NULL,1,'rejected','queue_full',1,'ann','direct','chat-1',NULL,NULL,NULL,'http',NULL,5,1,1,1764951400000000,0.0,0.23,0,428,9,'it failed','{}','{"number":22}',NULL,NULL);
INSERT INTO "tool_calls" VALUES(1807310950400000741,NULL,'call-23',NULL,'tool-1',NULL,1,'succeeded',NULL,1,NULL,'direct','chat-2',NULL,NULL,NULL,'http',NULL,5,1,1,1764952100000000,0.0,0.24,0,429,9,NULL,'{}','{"number":23}',NULL,NULL);
CREATE TABLE tool_definitions (
    id INTEGER PRIMARY KEY,
    tool_name TEXT NOT NULL,
    version TEXT,
    definition_hash TEXT
);
CREATE TABLE tool_engine_schema (version INTEGER);
INSERT INTO "tool_engine_schema" VALUES(2);
CREATE TABLE tool_event_numbers (
    id INTEGER PRIMARY KEY,
    reserved INTEGER NOT NULL
);
CREATE TABLE tool_events (
    sequence INTEGER PRIMARY KEY,
    event_type TEXT NOT NULL,
    happened_at INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE tool_values (
    hash BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    used_at INTEGER NOT NULL,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX tool_calls_record ON tool_calls (record_id) WHERE record_id IS NOT NULL;
CREATE INDEX tool_calls_call ON tool_calls (call_id) WHERE call_id IS NOT NULL;
CREATE INDEX tool_calls_parent ON tool_calls (parent_call_id) WHERE parent_call_id IS NOT NULL;
CREATE INDEX tool_calls_caller ON tool_calls (caller_id) WHERE caller_id IS NOT NULL;
CREATE INDEX tool_calls_conversation ON tool_calls (conversation_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX tool_calls_workflow ON tool_calls (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX tool_calls_error ON tool_calls (error_type) WHERE error_type IS NOT NULL;
CREATE INDEX tool_calls_tool ON tool_calls (tool_name);
CREATE INDEX tool_calls_failed ON tool_calls (key) WHERE outcome <> 'succeeded';
COMMIT;
