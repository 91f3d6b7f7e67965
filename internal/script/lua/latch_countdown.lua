-- Count down a latch. Idempotent.
-- USES  once int64 tell
-- KEYS  1 the count
--       2 the mark of the request series
-- ARGV  1 number of the request
--       2 how long to keep the mark, in ms
--       3 PUBLISH or SPUBLISH
--       4 the channel of the waiters: not a key, since it may be in another slot
-- RETURN  the new count; as text if it has more than 53 bits
local known = recall(KEYS[2], ARGV[1])
if known then return exact(told(KEYS[2], known)) end
local left, open = number(KEYS[1]), false
-- A server that is out of memory refuses DECR, unless the script has written already.
redis.call('pexpire', KEYS[2], ARGV[2])
if not left then
  left = '0'
elseif less(left, '2') then
  left = '0'
  redis.call('del', KEYS[1])
  open = true
else
  redis.call('decr', KEYS[1])
  left = redis.call('get', KEYS[1]) -- the reply to DECR is a double in Lua
end
remember(KEYS[2], ARGV[1], left, ARGV[2])
if open then tell(ARGV[3], ARGV[4], '0') end
return exact(left)
