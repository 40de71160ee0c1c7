from gradsim.cli import main

main()
