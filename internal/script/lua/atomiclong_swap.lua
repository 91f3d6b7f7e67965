-- Set or delete a number and return its old value. Idempotent.
-- USES  once int64
-- KEYS  1 the number
--       2 the mark of the request series
-- ARGV  1 the new number; empty: delete it
--       2 number of the request
--       3 how long to keep the mark, in ms
-- RETURN  the old number, as text
local known = recall(KEYS[2], ARGV[2])
if known then return told(KEYS[2], known) end
local old = number(KEYS[1]) or '0'
if ARGV[1] == '' then
  redis.call('del', KEYS[1])
else
  redis.call('set', KEYS[1], ARGV[1])
end
return remember(KEYS[2], ARGV[2], old, ARGV[3])
