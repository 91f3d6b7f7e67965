-- Release a mutex and grant it to the first client in its queue. Or leave the queue. Idempotent.
-- KEYS  1 the lock
--       2 the queue: see lib/pass.lua
-- ARGV  1 owner
--       2 the channel of clients that do not queue
--       3 PUBLISH or SPUBLISH
--       4 a random number from 0 to 99: see lib/pass.lua
-- RETURN  0  the owner does not hold it; it is not in the queue any more
--         1 + the number of clients that received the message and do not queue, or 1 if it was granted to another owner
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  redis.pcall('zrem', KEYS[2], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
return 1 + pass(ARGV[3], ARGV[2], tonumber(ARGV[4]))
