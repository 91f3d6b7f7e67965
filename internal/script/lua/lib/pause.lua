-- Readers that come all the time would never leave the lock free. So while a writer waits, no further readers are admitted for PAUSE of
-- every PERIOD ms, at all servers and clients at the same time by the server's clock. Nothing is stored for this.
local PERIOD, PAUSE = 100, 25

-- pause returns for how many ms no reader is admitted to a lock that others read, 0 if one is. The parameter root is the prefix of all
-- readers' keys. A writer that waits is a client of Holdfast in the queue, or a client of Redisson that listens.
local function pause(now, root)
  local ms = PAUSE - now % PERIOD
  if ms <= 0 then return 0 end
  local queue = 'holdfast:queue:' .. root
  if redis.pcall('exists', queue) == 1 then return ms end
  for _, publish in ipairs({ 'publish', 'spublish' }) do
    local _, foreign = listeners(publish, 'redisson_rwlock:' .. root, queue, queue)
    if foreign and foreign > 0 then return ms end
  end
  return 0
end
