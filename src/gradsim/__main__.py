from gradsim_command import main

main()
