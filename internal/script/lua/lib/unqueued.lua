-- The usual end of a release: no client queues, and no other client waits. It precedes all functions, since these cost a request as much as
-- its commands. The part before it says whether the lock was freed, and whom to tell.
local head, heard -- the first entry in the queue; how many clients received the message, nil if the lock is still held or clients queue
if freed then
  head = redis.pcall('zrange', KEYS[#KEYS], '0', '0', 'withscores')
  if not head[1] and not head.err then
    heard = redis.pcall(publish, channel, message)
    if message2 then redis.pcall(publish, channel, message2) end
    if heard == 0 then return 1 end
  end
end
