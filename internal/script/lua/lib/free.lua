-- The release of a mutex for which no client queues. It precedes all functions, since these cost a release as much as its commands.
-- KEYS  1 the lock, and the queue as the last one
-- ARGV  1 owner
--       3 the channel of clients that do not queue
--       4 PUBLISH or SPUBLISH
local publish = ARGV[4]
local held = redis.call('hexists', KEYS[1], ARGV[1]) == 1
local heard -- how many clients received the message; nil if clients queue
if held then
  redis.call('del', KEYS[1])
  if redis.call('exists', KEYS[#KEYS]) == 0 then
    heard = redis.pcall(publish, ARGV[3], '0')
    if heard == 0 then return 1 end
  end
end
