-- The message of a release, if no client queues. It precedes the functions that pass the lock on.
-- KEYS  the last one is the queue
-- ARGV  3 PUBLISH or SPUBLISH
local heard -- how many clients received the message; nil if the lock is still held, or clients queue
if freed and redis.call('exists', KEYS[#KEYS]) == 0 then
  local writer = found[2] == 'write'
  heard = redis.pcall(ARGV[3], channel, writer and '1' or '0')
  if writer then redis.pcall(ARGV[3], channel, '0') end -- see left
  if heard == 0 then return 1 end
end
