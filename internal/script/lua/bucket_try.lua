-- Set a value if there is none (NX), or if there is one (XX). Idempotent.
-- USES  once tell
-- KEYS  1 the value
--       2 the mark of the request series
-- ARGV  1 the new value
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the channel of those who watch the value
--       5 PUBLISH or SPUBLISH
--       6.. options of SET, including NX or XX
-- RETURN  1 set, 0 not set
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
redis.call('strlen', KEYS[1]) -- fails on a key of another type, which may be a lock
local done = redis.call('set', KEYS[1], ARGV[1], unpack(ARGV, 6))
remember(KEYS[2], ARGV[2], done and 'set' or 'not', ARGV[3])
if done then tell(ARGV[5], ARGV[4], '') end
return done and 1 or 0
