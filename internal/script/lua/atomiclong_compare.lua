-- Set a number if it has the expected value; a missing number counts as 0. Idempotent.
-- USES  once int64
-- KEYS  1 the number
--       2 the mark of the request series
-- ARGV  1 the expected number
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the new number
-- RETURN  1 set, 0 it had another value
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'set' and 1 or 0 end
local old = number(KEYS[1]) or '0'
-- The reply 0 is stored, too: a late copy of the request must not set the number after the client was told that it is not set.
if old ~= ARGV[1] then
  remember(KEYS[2], ARGV[2], 'other', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[4])
remember(KEYS[2], ARGV[2], 'set', ARGV[3])
return 1
